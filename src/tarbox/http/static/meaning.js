// What the server understands of a question: a sentence, a drawing, and the tree that the builder shows.

import { drawing, isSparql } from "./api.js";
import { addressOf, byId } from "./dom.js";
import { drawGraph } from "./graph.js";
import { isAnything, split } from "./tree.js";

const PAUSE = 250;
const GAPS = { column: 138, row: 56 };

/** The figure by the box. `failed(problem, text)` is told of a text that is not understood, `read(tree)` of one that is. */
export class Meaning {
  #figure = byId("meaning");
  #timer = 0;
  #pending = null;
  #graph = null;
  #failed;
  #read;

  constructor({ failed, read }) {
    this.#failed = failed;
    this.#read = read;
  }

  /** Reads a text that is being typed, once the typing pauses; the last good reading stays, dimmed. */
  follow(text) {
    clearTimeout(this.#timer);
    this.#pending?.abort();
    if (!text.trim() || isSparql(text)) {
      this.#figure.hidden = true;
      if (!text.trim()) this.#read(null);
      return;
    }
    this.#figure.classList.add("stale");
    this.#timer = setTimeout(async () => {
      const problem = await this.#draw(text);
      if (problem) this.#failed(problem, text);
    }, PAUSE);
  }

  /** Reads a text that has been asked. What is wrong with it, the answer says. */
  async show(text) {
    clearTimeout(this.#timer);
    const problem = isSparql(text) || (await this.#draw(text));
    if (problem) this.#figure.hidden = true;
  }

  async #draw(text) {
    this.#pending?.abort();
    this.#pending = new AbortController();
    const { signal } = this.#pending;
    try {
      const { english, tree } = await drawing(text, signal);
      byId("english").textContent = english;
      this.#figure.hidden = false;
      this.#figure.classList.remove("stale");
      this.#read(tree);
      const frame = byId("drawing");
      frame.setAttribute("aria-label", `The question as a graph: ${english}`);
      this.#graph?.destroy();
      this.#graph = await drawGraph(frame, sketch(tree), "entity", (role, iri) => (location.hash = addressOf(role, iri)), GAPS);
    } catch (problem) {
      if (problem.name === "AbortError" || signal.aborted) return null;
      this.#figure.classList.add("stale");
      return problem;
    }
    return null;
  }
}

/** A tree as nodes and edges: a thing and its conditions are one node, `not` is a dashed edge. */
export function sketch(tree) {
  const nodes = [];
  const edges = [];
  const noun = (part, kind = null) => {
    const { head, conditions } = split(part);
    const id = String(nodes.length);
    nodes.push({ id, kind: kind ?? (isAnything(head) ? "variable" : head.kind), label: isAnything(head) ? "" : head.label, iri: isAnything(head) ? "" : head.iri });
    conditions.forEach((each) => condition(each, id));
    return id;
  };
  const condition = (part, id, denied = false) => {
    const status = denied ? "predicted" : "known"; // dashed
    const word = denied ? "not " : "";
    if (part.kind === "not") condition(part.operand, id, !denied);
    else if (part.kind === "some") {
      const other = noun(part.operand);
      edges.push({ source: part.inverse ? other : id, target: part.inverse ? id : other, label: word + part.relation.label, status });
    } else if (part.kind === "text") {
      nodes.push({ id: String(nodes.length), kind: "variable", label: part.label });
      edges.push({ source: id, target: String(nodes.length - 1), label: denied ? "not" : "", status });
    } else {
      const alternatives = part.kind === "or" ? part.operands : [part];
      for (const each of alternatives) edges.push({ source: id, target: noun(each), label: word + (part.kind === "or" ? "or" : "is"), status });
    }
  };
  noun(tree, "answer");
  return { nodes, edges };
}
