// The two ranked lists.

import { badge, byId, counted, element, measure, number, shape } from "./dom.js";

/** How many more answers a click brings. */
export const STEP = 50;

const LEVELS = {
  entity: { one: "entity", many: "entities", measures: ["degree"], none: "No entity answers this." },
  concept: {
    one: "concept",
    many: "concepts",
    measures: ["degree", "coverage", "specificity"],
    none: "No concept describes the answers.",
  },
};

/** One list. `chosen(item)` is called for an answer that is opened, `more()` to see more of them. */
export class AnswerList {
  #level;
  #section;
  #chosen;
  #more;

  constructor(level, { chosen, more }) {
    this.#level = level;
    this.#section = byId(LEVELS[level].many);
    this.#chosen = chosen;
    this.#more = more;
    this.#section.addEventListener("keydown", (event) => moveFocus(event, this.#section));
  }

  /** Shows the first `items` of `total`; the focus goes to row `focus` where one is given. */
  show(items, total, focus = -1) {
    const { none, one, many } = LEVELS[this.#level];
    const rest = total - items.length;
    this.#section.replaceChildren(
      this.#heading(items.length, total),
      items.length
        ? element("ol", { class: "rows" }, items.map((item) => this.#row(item)))
        : element("p", { class: "none" }, none),
    );
    if (rest > 0 && items.length) {
      const words = rest <= STEP ? `Show all ${counted(total, one, many)}` : `Show ${STEP} more ${many}`;
      this.#section.append(element("button", { type: "button", class: "quiet more", onclick: this.#more }, words));
    }
    if (focus >= 0) this.#section.querySelectorAll(".row")[focus]?.focus();
  }

  /** Grey rows in the place of answers to come. */
  wait() {
    const rows = Array.from({ length: 6 }, () => element("li", { class: "skeleton" }));
    this.#section.replaceChildren(this.#heading(0, null), element("ol", { class: "rows", "aria-hidden": "true" }, rows));
  }

  /** Marks the answer whose explanation is open. */
  select(iri) {
    for (const row of this.#section.querySelectorAll(".row")) {
      if (row.dataset.iri === iri) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  /** Puts the focus on an answer; says whether it is there. */
  focus(iri) {
    const row = Array.from(this.#section.querySelectorAll(".row")).find((each) => each.dataset.iri === iri);
    row?.focus();
    return Boolean(row);
  }

  #heading(shown, total) {
    const { many, measures } = LEVELS[this.#level];
    const count = total === null ? "" : shown < total ? `${number(shown)} of ${number(total)}` : number(total);
    return element(
      "div",
      { class: "list-head" },
      element("h2", { id: `${many}-title` }, shape(this.#level), many, element("span", { class: "total" }, count)),
      total ? element("div", { class: "columns", "aria-hidden": "true" }, measures.map((name) => element("span", {}, name))) : null,
    );
  }

  #row(item) {
    const { measures } = LEVELS[this.#level];
    return element(
      "li",
      {},
      element(
        "button",
        { type: "button", class: "row", "data-iri": item.iri, onclick: () => this.#chosen(item) },
        shape(this.#level),
        element("span", { class: "who" }, element("span", { class: "label" }, item.label), badge(item.status)),
        measures.map((name) => measure(name, item[name] ?? 0, name === "degree" ? item.status : "")),
      ),
    );
  }
}

/** Arrow keys, Home and End walk through the rows of a list; Tab leaves row by row, as everywhere. */
export function moveFocus(event, section) {
  const rows = Array.from(section.querySelectorAll(".row"));
  const at = rows.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
  if (at < 0 || to === undefined || !rows[to]) return;
  event.preventDefault();
  rows[to].focus();
}
