// Why an answer is one, and where a concept stands.

import * as api from "./api.js";
import { addressOf, byId, counted, element, link, measure, number, shape, spoken } from "./dom.js";
import { drawGraph } from "./graph.js";

const CHILDREN = 12;
const MEMBERS = 10;

/** The panel. `opened(level, iri)` follows a concept, `asked(text)` asks a question, `closed()` goes back. */
export class Details {
  #panel = byId("details");
  #graph = null;
  #pending = null;
  #follow;

  constructor({ opened, asked, closed }) {
    this.#follow = { opened, asked, closed };
    this.#panel.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      closed();
    });
    // A panel taller than the window scrolls along until its end is in sight; style.css has the rule.
    const measured = ([{ target }]) => target.style.setProperty("--height", `${target.offsetHeight}px`);
    new ResizeObserver(measured).observe(this.#panel);
    this.invite();
  }

  /** What the panel says before an answer is chosen. */
  invite() {
    this.#reset();
    this.#panel.classList.add("empty");
    this.#panel.append(element("p", {}, "Choose an answer to see why it is one."));
  }

  /** Nothing at all: the answers are still to come, or there are none. */
  clear() {
    this.#reset();
    this.#panel.classList.add("empty");
  }

  /** Shows an entity or a concept; `item` is its row in the lists, where it has one. */
  async open(level, iri, query, item) {
    this.#reset();
    this.#panel.classList.remove("empty");
    this.#panel.setAttribute("aria-busy", "true");
    const title = element("h2", { tabindex: "-1", id: "details-title" }, shape(level), link(level, { iri, label: item?.label ?? shorten(iri) }));
    const body = element("div", { class: "details-body" }, element("p", { class: "waiting" }, "Looking for the reasons …"));
    const back = "Close and go back to the answers";
    const close = element("button", { type: "button", class: "quiet", "aria-label": back, onclick: this.#follow.closed }, "Close");
    this.#panel.append(element("div", { class: "details-head" }, title, close), body);
    this.#pending = new AbortController();
    const { signal } = this.#pending;
    const [reason, place] = await Promise.allSettled([
      api.explain(query, iri, level, signal),
      level === "concept" ? api.concept(iri, signal) : Promise.resolve(null),
    ]);
    if (signal.aborted) return;
    this.#panel.removeAttribute("aria-busy");
    body.replaceChildren();
    const label = place.value?.label ?? reason.value?.nodes.find(({ kind }) => kind === "answer")?.label;
    if (label) title.replaceChildren(shape(level), link(level, { iri, label }));
    if (place.value) body.append(...measures(place.value, item));
    if (reason.status === "fulfilled") await this.#explain(body, reason.value, level);
    else body.append(element("p", { class: "none" }, reason.reason.message));
    if (place.status === "rejected") body.append(element("p", { class: "none" }, place.reason.message));
    else if (place.value) body.append(...this.#place(place.value));
  }

  focus() {
    byId("details-title")?.focus({ preventScroll: true });
    this.#panel.scrollIntoView({ block: "nearest" });
  }

  #reset() {
    this.#pending?.abort();
    this.#graph?.destroy();
    this.#graph = null;
    this.#panel.removeAttribute("aria-busy");
    this.#panel.replaceChildren();
  }

  /** Where the panel stands: below a row, on a phone, or in its own column. */
  place(row) {
    if (row && matchMedia("(max-width: 760px)").matches) row.after(element("li", { class: "here" }, this.#panel));
    else if (this.#panel.parentElement.matches(".here")) {
      const here = this.#panel.parentElement;
      byId("classes").before(this.#panel);
      here.remove();
    }
  }

  async #explain(body, { sentence, nodes, edges, steps }, level) {
    body.append(element("p", { class: "sentence" }, linked(sentence, nodes ?? [], level)));
    const frame = element("div", { class: "graph", role: "img", "aria-label": `Graph: ${sentence}` });
    if (nodes?.length > 1) body.append(frame);
    if (steps?.length > 1) body.append(this.#steps(steps, edges));
    if (frame.isConnected) this.#graph = await drawGraph(frame, { nodes, edges }, level, (role, iri) => (location.hash = addressOf(role, iri)));
  }

  /** The reasons one by one; pointing at one shows its edge. A step that counts, or tells what is absent, has none. */
  #steps(steps, edges) {
    const listed = steps.map((step, index) => {
      const edge = edges.findIndex((each) => each.step === index);
      const show = () => edge >= 0 && this.#graph?.emphasise(edge);
      return element("li", { onpointerenter: show, onpointerleave: () => this.#graph?.emphasise(null) }, step);
    });
    return element(
      "details",
      { class: "steps" },
      element("summary", {}, counted(steps.length, "step")),
      element("ol", {}, listed),
    );
  }

  #place(concept) {
    const asked = () => this.#follow.asked(concept.name);
    return [
      element("h3", {}, "In the hierarchy"),
      ...this.#hierarchy(concept),
      element("h3", {}, "Members by degree"),
      members(concept),
      element("button", { type: "button", class: "quiet", onclick: asked }, `Ask for ${concept.label}`),
    ];
  }

  /** A chain from the top down to the concept and to those below it; then the other chains, each on a line. */
  #hierarchy(concept) {
    const [chain, ...others] = concept.paths.map((path) => path.slice(0, -1));
    const below = concept.children.slice(0, CHILDREN);
    const rest = concept.child_count - below.length;
    const rows = [
      ...(chain ?? []).map((each, depth) => tier(depth, this.#link(each), each.count)),
      tier(chain?.length ?? 0, here(concept), concept.count),
      ...below.map((each) => tier((chain?.length ?? 0) + 1, this.#link(each), each.count)),
    ];
    const drawn = [element("ul", { class: "hierarchy" }, rows)];
    if (rest > 0) drawn.push(element("p", { class: "rest" }, `and ${number(rest)} more below it`));
    const lines = others.filter((path) => path.length).map((path) => element("li", {}, path.map((each) => this.#link(each))));
    if (lines.length) drawn.push(element("p", { class: "rest" }, "Also under"), element("ul", { class: "chains" }, lines));
    return drawn;
  }

  #link({ iri, label }) {
    return element("button", { type: "button", class: "concept-link", onclick: () => this.#follow.opened("concept", iri) }, shape("concept"), label);
  }
}

/** A sentence in which the names of nodes are links. */
function linked(sentence, nodes, level) {
  const named = nodes.filter(({ iri, label }) => iri?.startsWith("<") && label).toSorted((one, other) => other.label.length - one.label.length);
  if (!named.length) return [sentence];
  const escaped = named.map(({ label }) => label.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const parts = sentence.split(new RegExp(`(?<![\\p{L}\\d])(${escaped.join("|")})(?![\\p{L}\\d])`, "u"));
  return parts.map((part) => {
    const node = named.find(({ label }) => label === part);
    const role = node?.kind === "concept" || (node?.kind === "answer" && level === "concept") ? "concept" : "entity";
    return node ? link(role, node) : part;
  });
}

/** What a concept tells about the answers: `item` is its row in the list, where it has one. */
function measures(concept, item) {
  const shares = [["Coverage", item?.coverage], ["Specificity", concept.specificity]];
  const facts = shares
    .filter(([, share]) => share !== undefined)
    .map(([name, share]) => element("div", {}, element("dt", {}, name), element("dd", {}, measure("", share))));
  facts.push(element("div", {}, element("dt", {}, "Instances"), element("dd", {}, number(concept.count))));
  const meaning = "Coverage is the share of the answers inside. Specificity is 0 where everything is inside, 1 where one thing is.";
  return [element("dl", { class: "facts" }, facts), element("p", { class: "rest" }, meaning)];
}

function tier(depth, thing, instances) {
  const row = element("li", { class: depth ? "under" : "" }, thing, element("span", { class: "count" }, number(instances), spoken(" instances")));
  row.style.setProperty("--depth", String(Math.min(depth, 7)));
  return row;
}

function here({ label, equivalents }) {
  const same = equivalents.map((each) => each.label).join(", ");
  return element("span", { class: "concept-here", "aria-current": "true" }, shape("concept"), label, same ? ` (the same as ${same})` : "");
}

/** Known members, then predicted ones. */
function members({ instances, predicted: guessed, count }) {
  if (!count && !guessed.length) return element("p", { class: "none" }, "It has no instances.");
  const known = instances.slice(0, MEMBERS).map((member) => ({ ...member, degree: 1, status: "known" }));
  const predicted = guessed.slice(0, MEMBERS).map((member) => ({ ...member, status: "predicted" }));
  const rows = [...known, ...predicted].map((member) =>
    element("li", {}, shape("entity", member.status), link("entity", member), measure("degree", member.degree, member.status)),
  );
  const rest = count - known.length;
  const more = rest > 0 ? element("p", { class: "rest" }, `and ${counted(rest, "other instance")}`) : "";
  return element("div", {}, element("ul", { class: "members" }, rows), more);
}

/** The last part of an IRI, until its label is known. */
const shorten = (iri) => decodeURIComponent(iri.replace(/[<>]/g, "").split(/[#/:]/).at(-1));
