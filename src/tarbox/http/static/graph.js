// An explanation as a graph: what the question names on the left, the answer on the right, as in the query's drawing;
// from top to bottom where that is too wide; and where both are, as an outline that begins with the answer.

const COLUMN = 176;
const ROW = 84;
const NAME = 112;
const INDENT = 30;
const LINE = 44;
const PAD = 10;

/** The drawing library, loaded with the first drawing. */
export const loadCytoscape = async () => (await import("./vendor/cytoscape.esm.min.mjs")).default;

/** Draws {nodes, edges} into `frame`, `gaps` apart; returns a handle with `emphasise(edge)` and `destroy()`. */
export async function drawGraph(frame, { nodes, edges }, level, opened, gaps = { column: COLUMN, row: ROW }) {
  const cytoscape = await loadCytoscape();
  if (!frame.isConnected) return null;
  const tree = grow(nodes, edges);
  const plan = arrange(tree, frame.clientWidth, gaps);
  const graph = cytoscape({
    container: frame,
    elements: [
      ...nodes.map(({ id, kind, label, iri }) => ({
        data: { id, label: plan.outline ? outlineLabel(label, id, tree.get(id), edges) : label, iri: iri ?? "" },
        classes: [kind, kind === "answer" ? level : "", ...plan.classes(id)],
        position: plan.position(tree.get(id)),
      })),
      ...edges.map(({ source, target, label, status, degree }, index) => ({
        data: { id: `edge-${index}`, source, target, label: edgeLabel(label, status, degree) },
        classes: [status ?? "", ...(plan.outline ? bend(index, source, tree) : [])],
      })),
    ],
    layout: { name: "preset" },
    style: styles(plan.room),
    autoungrabify: true,
    autounselectify: true,
    userZoomingEnabled: false,
    userPanningEnabled: false,
    boxSelectionEnabled: false,
  });
  const fit = () => {
    graph.resize();
    graph.fit(undefined, PAD);
    if (graph.zoom() > 1) graph.zoom(1);
    graph.center();
  };
  const { w, h } = graph.elements().boundingBox();
  const scale = Math.min(1, (frame.clientWidth - 2 * PAD) / w);
  frame.style.setProperty("height", `${Math.ceil(h * scale) + 2 * PAD}px`);
  fit();
  graph.on("tap", "node", ({ target }) => target.data("iri").startsWith("<") && opened(target.hasClass("concept") ? "concept" : "entity", target.data("iri")));
  const repaint = () => graph.style(styles(plan.room));
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", repaint);
  const watcher = new ResizeObserver(fit);
  watcher.observe(frame);
  return {
    emphasise(index) {
      graph.elements().toggleClass("aside", index !== null);
      if (index !== null) graph.getElementById(`edge-${index}`).removeClass("aside").connectedNodes().removeClass("aside");
    },
    destroy() {
      scheme.removeEventListener("change", repaint);
      watcher.disconnect();
      graph.destroy();
    },
  };
}

/**
 * The tree that hangs on the answer: for each node the `column` (its distance), the `row` (a leaf takes one of its own,
 * any other node the middle of what hangs on it), the `line` in an outline, and the edge that leads to it.
 */
function grow(nodes, edges) {
  const tree = new Map();
  let free = 0;
  const visit = (id, column, edge) => {
    const spot = { column, row: 0, line: tree.size, edge };
    tree.set(id, spot);
    const rows = [];
    edges.forEach(({ source, target }, index) => {
      const other = source === id ? target : target === id ? source : null;
      if (other !== null && !tree.has(other)) rows.push(visit(other, column + 1, index));
    });
    spot.row = rows.length ? (rows[0] + rows.at(-1)) / 2 : free++;
    return spot.row;
  };
  const answerFirst = [...nodes].sort((a, b) => (b.kind === "answer") - (a.kind === "answer"));
  for (const { id } of answerFirst) if (!tree.has(id)) visit(id, 0, null);
  return tree;
}

/** How the tree lies in a frame of this width: the place and the classes of each node, the `room` for a name. */
function arrange(tree, width, { column: across, row: down }) {
  const most = (key) => Math.max(...Array.from(tree.values(), (spot) => spot[key]));
  const [last, rows] = [most("column"), most("row") + 1];
  if (NAME + last * across + 80 <= width) {
    return {
      room: NAME,
      classes: (id) => (tree.get(id).column === last ? ["end"] : []),
      position: ({ column, row }) => ({ x: (last - column) * across, y: row * down }),
    };
  }
  if ((rows - 1) * 100 + 140 <= width) {
    const beside = Math.min(210, (width - 40) / rows);
    return {
      room: Math.min(180, beside - 44),
      classes: () => ["beside"],
      position: ({ column, row }) => ({ x: row * beside, y: (last - column) * down }),
    };
  }
  return {
    outline: true,
    room: Math.max(120, width - last * INDENT - 60),
    classes: () => ["beside", "small"],
    position: ({ column, line }) => ({ x: column * INDENT, y: line * LINE }),
  };
}

/** A predicted fact says how likely it is, where the model knows. */
const edgeLabel = (label, status, degree) =>
  status === "predicted" && typeof degree === "number" ? `${label} ${degree < 0.01 ? "<0.01" : degree.toFixed(2)}` : label;

/** In an outline a name stands behind the relation that leads to it, with an arrow that points as the fact does. */
function outlineLabel(label, id, { edge }, edges) {
  if (edge === null) return label;
  const { label: fact, source, status, degree } = edges[edge];
  const relation = edgeLabel(fact, status, degree);
  return `${relation} ${source === id ? "←" : "→"} ${label}`;
}

/** How an edge of the outline bends: down and right, or left and up; one that closes a circle stays as it is. */
function bend(index, source, tree) {
  const leads = Array.from(tree).find(([, spot]) => spot.edge === index);
  if (!leads) return [];
  return ["branch", leads[0] === source ? "upward" : "downward"];
}

/** Cytoscape draws on a canvas, which style sheets do not reach: the colours are read from the page. */
export function styles(room) {
  const page = getComputedStyle(document.documentElement);
  const colour = (name) => page.getPropertyValue(`--${name}`).trim();
  const font = getComputedStyle(document.body).fontFamily;
  return [
    {
      selector: "node",
      style: {
        width: 26, height: 26, "background-color": colour("surface"), "border-width": 1.5, "border-color": colour("muted"),
        label: "data(label)", color: colour("ink"), "font-family": font, "font-size": 13, "text-wrap": "wrap",
        "text-max-width": `${room}px`, "text-valign": "bottom", "text-halign": "right", "text-margin-x": -16,
        "text-margin-y": 4, "text-justification": "left", "text-background-color": colour("surface"),
        "text-background-opacity": 0.9,
      },
    },
    { selector: ".end", style: { "text-valign": "center", "text-halign": "left", "text-margin-x": -6, "text-margin-y": 0, "text-justification": "right" } },
    { selector: ".answer", style: { "text-halign": "center", "text-margin-x": 0, "text-margin-y": 6, "text-justification": "center" } },
    { selector: ".beside", style: { "text-valign": "center", "text-halign": "right", "text-margin-x": 7, "text-margin-y": 0, "text-justification": "left" } },
    { selector: ".below", style: { "text-valign": "bottom", "text-halign": "center", "text-margin-x": 0, "text-margin-y": 4, "text-justification": "center" } },
    { selector: ".entity", style: { "background-color": colour("accent-soft"), "border-color": colour("accent") } },
    { selector: ".concept", style: { shape: "rectangle", "background-color": colour("accent-soft"), "border-color": colour("accent") } },
    {
      selector: ".answer",
      style: { width: 30, height: 30, "background-color": colour("accent"), "border-color": colour("accent"), "border-width": 7, "border-style": "double", "font-weight": 600 },
    },
    { selector: ".small", style: { width: 18, height: 18 } },
    { selector: ".small.answer", style: { width: 22, height: 22, "border-width": 5 } },
    { selector: ".answer.concept", style: { shape: "rectangle" } },
    {
      selector: "edge",
      style: {
        width: 2.5, "line-color": colour("accent"), "target-arrow-color": colour("accent"), "target-arrow-shape": "triangle",
        "arrow-scale": 0.9, "curve-style": "bezier", label: "data(label)", color: colour("muted"), "font-family": font,
        "font-size": 12, "text-background-color": colour("surface"), "text-background-opacity": 1, "text-background-padding": "2px",
        "target-distance-from-node": 3, "source-distance-from-node": 3,
      },
    },
    { selector: ".branch", style: { label: "", "curve-style": "taxi", "taxi-turn": "100%", "taxi-turn-min-distance": 0, "taxi-radius": 4, width: 2 } },
    { selector: ".downward", style: { "taxi-direction": "downward" } },
    { selector: ".upward", style: { "taxi-direction": "leftward" } },
    { selector: "edge.predicted", style: { "line-style": "dashed" } },
    { selector: ".aside", style: { opacity: 0.25 } },
  ];
}
