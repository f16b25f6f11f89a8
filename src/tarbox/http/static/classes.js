// Where a question stands among the classes, as in Protégé's DL Query tab; asked for when it is opened.

import { classDescription } from "./api.js";
import { byId, counted, element, number, shape } from "./dom.js";

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

/** The section under the answers. `asked(text)` asks a question. */
export class Classes {
  #section = byId("classes");
  #lists = byId("class-lists");
  #expression = "";
  #shown = null;
  #asked;

  constructor({ asked }) {
    this.#asked = asked;
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
    this.#say("waiting", "Reasoning about the classes …");
    try {
      const found = await classDescription(expression);
      if (this.#expression === expression) this.#present(found);
    } catch (problem) {
      if (this.#expression !== expression) return;
      this.#shown = null;
      this.#say("none", problem.message);
    }
  }

  #say(kind, text) {
    this.#lists.replaceChildren(element("p", { class: kind }, text));
  }

  /** Where all classes of a kind are direct ones, they stand there once; what nothing can be in is below all. */
  #present(found) {
    const lists = LISTS.filter(([key]) => found.satisfiable || key === "equivalent").filter(
      ([key]) => found.class_counts[key] !== found.class_counts[`direct_${key}`],
    );
    const predicted = PREDICTED.filter(([key]) => found[key].length);
    const told = [];
    if (!found.satisfiable) told.push("Nothing can be in it: that would contradict the axioms. So it is below every class.");
    if (!found.reasoned) told.push("By the hierarchy and the links between classes, without a reasoner for OWL.");
    this.#lists.replaceChildren(
      ...told.map((text) => element("p", { class: "rest" }, text)),
      element("dl", {}, [...lists, ...predicted].map((kind) => this.#list(found, kind))),
    );
  }

  #list(found, [key, one, many]) {
    const count = found.class_counts[key] ?? found[key].length;
    const shown = found[key].slice(0, LONGEST).map((each) => element("dd", {}, this.#link(each)));
    if (count > LONGEST) shown.push(element("dd", { class: "rest" }, `and ${number(count - LONGEST)} more`));
    return element("div", {}, element("dt", {}, count ? counted(count, one, many) : `no ${many}`), shown);
  }

  #link({ label, name, degree, status }) {
    const text = status !== "predicted" ? label : `${label} (${degree.toFixed(2)})`;
    return element("button", { type: "button", class: "concept-link", onclick: () => this.#asked(name) }, shape("concept"), text);
  }
}
