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

  /**
   * Shows known answers, and where a model predicts its predictions in a list of their own. `counts` says how many there
   * are of each (`known`, `predicted`, `less_likely`). The focus goes to the answer `focus`, an IRI, where one is
   * given.
   */
  show(items, counts, predicts, focus = null) {
    const { none, one, many } = LEVELS[this.#level];
    const [known, predicted] = ["known", "predicted"].map((status) => items.filter((item) => item.status === status));
    const total = counts.known + counts.predicted;
    const rest = total - items.length;
    const first = known.length || predicts ? this.#rows(known) : element("p", { class: "none" }, none);
    this.#section.replaceChildren(this.#heading(share(known.length, counts.known), predicts, total), first);
    if (predicts) this.#section.append(element("h3", { class: "part" }, predictions(predicted.length, counts)), this.#rows(predicted));
    if (rest > 0 && items.length) {
      const words = rest <= STEP ? `Show all ${counted(total, one, many)}` : `Show ${STEP} more ${many}`;
      this.#section.append(element("button", { type: "button", class: "quiet more", onclick: this.#more }, words));
    }
    if (focus) this.focus(focus);
  }

  /** Grey rows in the place of answers to come. */
  wait() {
    const rows = Array.from({ length: 6 }, () => element("li", { class: "skeleton" }));
    this.#section.replaceChildren(this.#heading("", false, 0), element("ol", { class: "rows", "aria-hidden": "true" }, rows));
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

  #heading(count, predicts, total) {
    const { many, measures } = LEVELS[this.#level];
    const words = predicts ? `${count} known` : count;
    return element(
      "div",
      { class: "list-head" },
      element("h2", { id: `${many}-title` }, shape(this.#level), many, element("span", { class: "total" }, words)),
      total ? element("div", { class: "columns", "aria-hidden": "true" }, measures.map((name) => element("span", {}, name))) : null,
    );
  }

  #rows(items) {
    return items.length ? element("ol", { class: "rows" }, items.map((item) => this.#row(item))) : "";
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

const share = (shown, total) => (shown < total ? `${number(shown)} of ${number(total)}` : number(total));

/** How many predictions there are, and how many more that are too unlikely to be listed. */
export function predictions(shown, { predicted, less_likely: less }) {
  const words = predicted ? `${share(shown, predicted)} predicted` : "None predicted";
  return less ? `${words} (${number(less)} less likely)` : words;
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
