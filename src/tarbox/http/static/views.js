// What stands behind #/ in the address: a page of a thing, the schema, questions, help, the API.

import { byId, element } from "./dom.js";
import { exploreView } from "./explore.js";
import { helpView } from "./help.js";
import { referenceView } from "./reference.js";

/** The view beside the question. `back()` is called when it closes. */
export class Views {
  #section = byId("view");
  #shown = "";
  #end = null;
  #questions;
  #back;

  constructor({ questions, back }) {
    this.#questions = questions;
    this.#back = back;
    byId("views").firstElementChild.addEventListener("click", (event) => {
      event.preventDefault();
      if (location.hash) history.pushState(null, "", location.pathname + location.search);
      this.show();
    });
  }

  get open() {
    return location.hash.startsWith("#/");
  }

  /** Makes the view what the address says. */
  async show() {
    const here = this.open ? location.hash : "";
    for (const link of byId("views").children) {
      if (link.getAttribute("href") === (here || "#")) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.#section.hidden = !here;
    byId("asking").hidden = Boolean(here);
    if (here === this.#shown) return;
    const before = this.#shown;
    this.#shown = here;
    (await this.#end)?.();
    this.#end = null;
    if (!here) {
      this.#section.replaceChildren();
      if (before) this.#back();
      return;
    }
    this.#section.replaceChildren(element("p", { class: "waiting" }, "Looking it up …"));
    this.#section.setAttribute("aria-busy", "true");
    try {
      const { view, label, ready } = await this.#load(here);
      if (this.#shown !== here) return;
      this.#section.replaceChildren(view);
      document.title = `${label} – tarbox`;
      this.#section.querySelector("h1").focus({ preventScroll: true });
      scrollTo(0, 0);
      this.#end = ready?.() ?? null;
    } catch (problem) {
      if (this.#shown === here) this.#section.replaceChildren(element("p", { class: "none" }, problem.message));
    }
    this.#section.removeAttribute("aria-busy");
  }

  async #load(hash) {
    const [name, iri] = hash.slice(2).split("/").map(decodeURIComponent);
    if (name === "questions") return { view: await this.#questions.view(), label: "Questions" };
    if (name === "help") return { view: helpView(), label: "Help" };
    if (name === "api") return referenceView();
    const found = exploreView(name, iri);
    if (!found) throw new Error("There is no such page.");
    return found;
  }
}
