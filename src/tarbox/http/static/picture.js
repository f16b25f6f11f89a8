// The server's drawing of a query, taken over element by element: what is not on the list does not get in.

const SVG = "http://www.w3.org/2000/svg";
const ELEMENTS = new Set(["svg", "g", "title", "desc", "path", "circle", "rect", "text"]);
const ATTRIBUTES = new Set(["class", "viewBox", "x", "y", "cx", "cy", "r", "rx", "d", "role"]);

/** A drawing as an element of this page; its colours are those of style.css. */
export function picture(markup) {
  // Even a parsed, unattached style element would break the page's policy: it goes before parsing.
  const bare = markup.replace(/<style\b[^]*?<\/style>/gi, "");
  const parsed = new DOMParser().parseFromString(bare, "image/svg+xml");
  if (parsed.documentElement.localName !== "svg") return null;
  const drawn = copy(parsed.documentElement);
  const [, , width, height] = (drawn.getAttribute("viewBox") ?? "").split(/\s+/).map(Number);
  drawn.setAttribute("width", width);
  drawn.setAttribute("height", height);
  drawn.style.setProperty("--width", `${width}px`);
  return drawn;
}

function copy(source) {
  const made = document.createElementNS(SVG, source.localName);
  for (const { name, value } of source.attributes) {
    const size = source.localName === "rect" && (name === "width" || name === "height");
    if (size || ATTRIBUTES.has(name)) made.setAttribute(name, value);
  }
  for (const child of source.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) made.append(child.data);
    else if (child.nodeType === Node.ELEMENT_NODE && ELEMENTS.has(child.localName)) made.append(copy(child));
  }
  return made;
}
