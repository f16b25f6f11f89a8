// The two ranked lists, each with its known and its predicted answers.

import { byId, counted, element, link, measure, number, shape, spoken } from "./dom.js";

/** How many more answers a click brings, and how many the server gives at most. */
export const STEP = 50;
export const MOST = 1000;

const LEVELS = {
  entity: { one: "entity", many: "entities", measures: ["degree"], none: "No entity answers this." },
  concept: {
    one: "concept",
    many: "concepts",
    measures: ["degree", "coverage", "specificity"],
    none: "No concept describes the answers.",
  },
};

/** One list. `chosen(item)` is called for an answer that is opened, `more(status)` to see more of a group. */
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
   * Shows known answers, and where a model predicts its predictions in a group of their own. `counts` says how many
   * there are of each (`known`, `predicted`, `less_likely`).
   */
  show(items, counts, predicts) {
    const { none } = LEVELS[this.#level];
    const total = counts.known + counts.predicted;
    this.#section.replaceChildren(this.#heading(total));
    for (const status of predicts ? ["known", "predicted"] : ["known"]) {
      const rows = items.filter((item) => item.status === status);
      const list = element("ol", { class: "rows", "data-status": status }, rows.map((item) => this.#row(item)));
      const heading = element("h3", { class: `part ${status}` }, part(status, counts));
      if (predicts || rows.length) this.#section.append(heading);
      this.#section.append(rows.length ? list : "");
      this.#continue(list, status, counts[status] - rows.length);
    }
    if (!total) this.#section.append(element("p", { class: "none" }, none));
  }

  /** Puts further answers at the end of one group; nothing above it moves. The focus goes to the first of them. */
  add(items, counts, status) {
    const list = this.#section.querySelector(`[data-status=${status}]`);
    const there = new Set(Array.from(list.querySelectorAll(".row"), ({ dataset }) => dataset.iri));
    const fresh = items.filter((item) => item.status === status && !there.has(item.iri)).map((item) => this.#row(item));
    list.append(...fresh);
    list.nextElementSibling?.matches(".more") && list.nextElementSibling.remove();
    this.#continue(list, status, counts[status] - this.size(status));
    fresh[0]?.querySelector(".why").focus();
  }

  /** How many answers of a group are shown. */
  size(status) {
    return this.#section.querySelectorAll(`[data-status=${status}] .row`).length;
  }

  /** The button at the end of a group that goes on. */
  #continue(list, status, rest) {
    if (rest <= 0 || !list.children.length) return;
    if (this.size(status) >= MOST) {
      list.after(element("p", { class: "rest more" }, `The first ${number(MOST)} are shown.`));
      return;
    }
    const { one, many } = LEVELS[this.#level];
    const words = `Show ${rest <= STEP ? counted(rest, `more ${status} ${one}`, `more ${status} ${many}`) : `${STEP} of ${number(rest)} more ${status} ${many}`}`;
    list.after(element("button", { type: "button", class: "quiet more", onclick: () => this.#more(status) }, words));
  }

  /** Grey rows in the place of answers to come. */
  wait() {
    const rows = Array.from({ length: 8 }, () => element("li", { class: "skeleton" }));
    this.#section.replaceChildren(this.#heading(0), element("ol", { class: "rows", "aria-hidden": "true" }, rows));
  }

  /** Marks the answer whose explanation is open; gives its row. */
  select(iri) {
    const rows = Array.from(this.#section.querySelectorAll(".row"));
    for (const row of rows) {
      if (row.dataset.iri === iri) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
    return rows.find((row) => row.dataset.iri === iri);
  }

  /** Puts the focus on an answer; says whether it is there. */
  focus(iri) {
    const row = Array.from(this.#section.querySelectorAll(".row")).find((each) => each.dataset.iri === iri);
    row?.querySelector(".why").focus();
    return Boolean(row);
  }

  #heading(total) {
    const { many, measures } = LEVELS[this.#level];
    return element(
      "div",
      { class: "list-head" },
      element("h2", { id: `${many}-title` }, shape(this.#level), many),
      total ? element("div", { class: "columns" }, measures.map(term)) : null,
    );
  }

  #row(item) {
    const { measures } = LEVELS[this.#level];
    const why = { type: "button", class: "why", "aria-label": `Why ${item.label}, ${item.status}`, onclick: () => this.#chosen(item) };
    return element(
      "li",
      { class: "row", "data-iri": item.iri },
      shape(this.#level, item.status),
      link(this.#level, item),
      measures.map((name) => measure(name, item[name] ?? 0, name === "degree" ? item.status : "")),
      element("button", why, "›"),
    );
  }
}

/** A word that explains itself: index.html has the texts. */
const term = (name) => element("button", { type: "button", class: "term", popovertarget: `term-${name}` }, name, spoken(": what it means"));

/** "23 known", "24 predicted (3 less likely)". */
export function part(status, counts) {
  const { [status]: count, less_likely: less } = counts;
  const words = status === "predicted" && !count ? "None predicted" : `${number(count)} ${status}`;
  return status === "predicted" && less ? `${words} (${number(less)} less likely)` : words;
}

/** Arrow keys, Home and End walk through the answers of a list; Tab goes from one to the next, as everywhere. */
export function moveFocus(event, section) {
  const rows = Array.from(section.querySelectorAll(".why"));
  const at = rows.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
  if (at < 0 || to === undefined || !rows[to]) return;
  event.preventDefault();
  rows[to].focus();
}
