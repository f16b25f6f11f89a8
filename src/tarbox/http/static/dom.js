// Elements, and the few shapes that every part of the page uses.

/**
 * An element with attributes and children. Text is only ever text: nothing here parses markup.
 * `on…` attributes are listeners, `hidden`, `value` and the like are properties, the rest are attributes.
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** Text for screen readers only. */
export const spoken = (text) => element("span", { class: "visually-hidden" }, text);

const SHAPES = { entity: "circle", concept: "square" };

/** The sign of a role: a circle for entities, a square for concepts, a line for relations; a predicted one is dashed. */
export const shape = (role, status = "") => element("i", { class: `shape ${SHAPES[role] ?? role} ${status}`, "aria-hidden": "true" });

/** Where the page of a thing is: a view of its own in the address. */
export const addressOf = (role, iri) => `#/${role}/${encodeURIComponent(iri.replace(/^<(.*)>$/, "$1"))}`;

/** A name that leads to its page; a literal, which has none, is text. */
export const link = (role, { iri, label }) =>
  iri.startsWith('"') ? element("span", { class: "label" }, label) : element("a", { class: "label", href: addressOf(role, iri) }, label);

/** A number between 0 and 1 with two digits and a bar of that length. */
export function measure(name, share, extra = "") {
  const bar = element("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", String(Math.max(0, Math.min(1, share))));
  return element("span", { class: `measure ${extra}` }, spoken(`${name} `), fixed(share), bar);
}

export const fixed = (share) => share.toFixed(2);

export const number = (count) => count.toLocaleString("en");

/** "1 entity", "28 entities". */
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

export const byId = (id) => document.getElementById(id);
