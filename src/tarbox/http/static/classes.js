// Where a question stands among the classes, as in Protégé's DL Query tab; asked for when it is opened.

import { classDescription } from "./api.js";
import { byId, counted, element } from "./dom.js";

const LISTS = [
  ["equivalent", "equivalent class", "equivalent classes"],
  ["direct_superclasses", "direct superclass", "direct superclasses"],
  ["superclasses", "superclass", "superclasses"],
  ["direct_subclasses", "direct subclass", "direct subclasses"],
  ["subclasses", "subclass", "subclasses"],
];
const PREDICTED = [
  ["predicted_superclasses", "predicted direct superclass", "predicted direct superclasses"],
  ["predicted_subclasses", "predicted direct subclass", "predicted direct subclasses"],
];
const LONGEST = 20;

/** The section under the answers. */
export class Classes {
  #section = byId("classes");
  #expression = "";
  #shown = null;

  constructor() {
    this.#section.addEventListener("toggle", () => this.#load());
  }

  show(expression) {
    this.#expression = expression;
    this.#load();
  }

  async #load() {
    const expression = this.#expression;
    if (!this.#section.open || !expression || this.#shown === expression) return;
    this.#shown = expression;
    const list = byId("class-lists");
    try {
      const found = await classDescription(expression);
      const kinds = [...LISTS, ...PREDICTED.filter(([key]) => found[key].length)];
      if (this.#expression === expression) list.replaceChildren(...kinds.flatMap((kind) => this.#lines(found, kind)));
    } catch (problem) {
      this.#shown = null;
      list.replaceChildren(element("dt", {}, problem.message));
    }
  }

  #lines(found, [key, one, many]) {
    const labels = found[key].slice(0, LONGEST).map(({ label, degree }) => (degree === undefined ? label : `${label} (${degree.toFixed(2)})`));
    if (found[key].length > LONGEST) labels.push("…");
    return [element("dt", {}, counted(found[key].length, one, many)), element("dd", {}, labels.join(", "))];
  }
}
