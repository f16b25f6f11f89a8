// The most likely new facts of a relation, with what speaks for each. Only where a model predicts.

import { candidates } from "./api.js";
import { byId, counted, element, link, measure, number } from "./dom.js";

const STEP = 10;

/** Fills the section `#candidates`, a `details` element. */
export class Candidates {
  #section = byId("candidates");
  #relation = element("select", { "aria-label": "Relation" });
  #within = element("input", { type: "text", placeholder: "all, or a class expression", "aria-label": "For", spellcheck: "false" });
  #list = element("ol", { class: "candidates" });
  #told = element("p", { class: "rest", role: "status" });
  #more = element("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#load(this.#list.children.length) }, "Show more");

  constructor() {
    const submitted = (event) => {
      event.preventDefault();
      this.#load(0);
    };
    const fields = ["New facts of ", this.#relation, " for ", this.#within, element("button", { type: "submit", class: "quiet" }, "Predict")];
    this.#section.append(element("form", { onsubmit: submitted }, fields), this.#told, this.#list, this.#more);
  }

  /** The relations to choose from, as `/api/kb` has them; none where nothing predicts. */
  offer(relations) {
    this.#section.hidden = !relations.length;
    const options = [...relations, { iri: "type", label: "type (is a)" }];
    this.#relation.replaceChildren(...options.map(({ iri, label }) => element("option", { value: iri }, label)));
  }

  async #load(offset) {
    const relation = this.#relation.selectedOptions[0].textContent;
    this.#told.textContent = "Looking for candidates …";
    if (!offset) this.#list.replaceChildren();
    try {
      const found = await candidates(this.#relation.value, this.#within.value.trim(), STEP, offset);
      this.#list.append(...found.candidates.map((each) => this.#row(each, relation)));
      this.#told.textContent = this.#summary(found);
      this.#more.hidden = this.#list.children.length >= found.count;
    } catch (problem) {
      this.#told.textContent = problem.message;
      this.#more.hidden = true;
    }
  }

  #summary({ count, expected_precision }) {
    if (!count) return "There are no candidates.";
    const shown = this.#list.children.length;
    const expected = expected_precision[shown];
    if (expected === undefined) return `${counted(shown, "candidate")} by the model's scores`;
    return `${number(shown)} of ${counted(count, "candidate")}; ${Math.round(100 * expected)}% of these are expected to be true`;
  }

  #row({ subject, object, degree, evidence }, relation) {
    const said = evidence.length ? evidence : ["Nothing near it in the graph: the model's score alone."];
    const fact = element("span", {}, link("entity", subject), ` ${relation} `, link(this.#relation.value === "type" ? "concept" : "entity", object));
    return element("li", {}, fact, measure("degree", degree), element("ul", {}, said.map((each) => element("li", {}, each))));
  }
}
