// An entity and its neighbours as a graph that grows: a click on a node brings its neighbours, a second one its page.

import { entityCard } from "./api.js";
import { addressOf } from "./dom.js";
import { loadCytoscape, styles } from "./graph.js";

const AROUND = 3;
const MOST = 12;
/** Names stay readable: a larger graph can be moved. */
const LEAST = 0.8;

/** The neighbours of a card: [{iri, label, relation, out}], a few of each relation. */
const neighbours = (card) =>
  ["outgoing", "incoming"]
    .flatMap((side) => card[side].flatMap(({ relation, values }) => values.slice(0, AROUND).map((each) => ({ ...each, relation: relation.label, out: side === "outgoing" }))))
    .filter(({ iri }) => iri.startsWith("<"));

/** Places for `count` nodes: on an ellipse around the first node; around others on an arc that looks away from it. */
function spread(count, at, first) {
  const away = Math.atan2(at.y, at.x);
  return Array.from({ length: count }, (_, row) => {
    const turn = first ? (2 * Math.PI * row) / count : away + (count > 1 ? (row / (count - 1) - 0.5) * Math.PI : 0);
    const [wide, high] = first ? [420, 170] : [260, 170 + 60 * (row % 2)];
    return { x: at.x + wide * Math.cos(turn), y: at.y + high * Math.sin(turn) };
  });
}

/** Draws a card's entity with its neighbours into `frame`; returns what ends it. */
export async function drawNetwork(frame, card) {
  const cytoscape = await loadCytoscape();
  if (!frame.isConnected) return () => {};
  const graph = cytoscape({ container: frame, style: styles(110), maxZoom: 1.3, userZoomingEnabled: false, boxSelectionEnabled: false, autounselectify: true });
  const opened = new Set();
  const add = (around) => {
    opened.add(around.iri);
    const first = graph.nodes().empty();
    const node = ({ iri, label }, kind, position) => ({ group: "nodes", data: { id: iri, label }, classes: [...kind, "small", "below"], position });
    if (first) graph.add(node(around, ["answer", "entity"], { x: 0, y: 0 }));
    const at = graph.getElementById(around.iri).position();
    const shown = neighbours(around).slice(0, MOST);
    const fresh = [...new Map(shown.map((each) => [each.iri, each])).values()].filter(({ iri }) => graph.getElementById(iri).empty());
    spread(fresh.length, at, first).forEach((position, row) => graph.add(node(fresh[row], ["entity"], position)));
    for (const { iri, relation, out } of shown) {
      const [source, target] = out ? [around.iri, iri] : [iri, around.iri];
      const id = `${source} ${relation} ${target}`;
      if (graph.getElementById(id).empty()) graph.add({ group: "edges", data: { id, source, target, label: relation } });
    }
    graph.fit(undefined, 24);
    if (graph.zoom() < LEAST) graph.zoom(LEAST).center(graph.getElementById(around.iri));
    frame.dataset.nodes = graph.nodes().length;
  };
  add(card);
  graph.on("tap", "node", async ({ target }) => {
    const iri = target.id();
    if (opened.has(iri)) {
      if (iri !== card.iri) location.hash = addressOf("entity", iri);
      return;
    }
    const found = await entityCard(iri, { limit: AROUND });
    if (frame.isConnected) add(found);
  });
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => graph.style(styles(110));
  scheme.addEventListener("change", repaint);
  return () => {
    scheme.removeEventListener("change", repaint);
    graph.destroy();
  };
}
