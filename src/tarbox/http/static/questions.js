// Questions that were asked here and those that are kept: in this browser only.

import { element } from "./dom.js";

const MOST = 50;

/** The questions of one knowledge base; `title`, which keeps it apart from others, may be a promise. */
export class Questions {
  #key = "tarbox-questions";
  #title = null;

  set title(title) {
    this.#title = title;
    Promise.resolve(title).then((known) => (this.#key = `tarbox-questions ${known}`));
  }

  #read() {
    try {
      return { asked: [], saved: [], ...JSON.parse(localStorage.getItem(this.#key) ?? "{}") };
    } catch {
      return { asked: [], saved: [] }; // not ours, or not readable
    }
  }

  #write(all) {
    try {
      localStorage.setItem(this.#key, JSON.stringify(all));
    } catch {
      // A full or forbidden store forgets; nothing else depends on it.
    }
  }

  asked(query, english) {
    const all = this.#read();
    this.#write({ ...all, asked: [{ query, english }, ...all.asked.filter((each) => each.query !== query)].slice(0, MOST) });
  }

  isSaved(query) {
    return this.#read().saved.some((each) => each.query === query);
  }

  /** Keeps a question, or lets it go; says which. */
  toggle(query, english) {
    const all = this.#read();
    const saved = all.saved.filter((each) => each.query !== query);
    const kept = saved.length === all.saved.length;
    this.#write({ ...all, saved: kept ? [{ query, english }, ...saved] : saved });
    return kept;
  }

  /** The view: saved ones, then the last ones. */
  async view() {
    await this.#title;
    const { asked, saved } = this.#read();
    const forget = async () => {
      this.#write({ asked: [], saved });
      view.replaceWith(await this.view());
    };
    const view = element(
      "div",
      {},
      element("h1", { tabindex: "-1" }, "Questions"),
      element("p", { class: "lead" }, "They are kept in this browser, nowhere else."),
      element("h2", {}, "Saved"),
      list(saved, "None yet: “Save” stands above the answers."),
      element("h2", {}, "Asked lately"),
      list(asked, "None yet."),
      asked.length ? element("button", { type: "button", class: "quiet", onclick: forget }, "Forget these") : null,
    );
    return view;
  }
}

const list = (questions, none) =>
  questions.length ? element("ul", { class: "cards" }, questions.map(questionCard)) : element("p", { class: "none" }, none);

/** A question as a link: its English, its text, and how many answers it has. */
export function questionCard({ query, english, entity_count: count }) {
  const more = count === undefined ? null : element("span", { class: "count" }, count);
  return element(
    "li",
    {},
    element("a", { href: `?q=${encodeURIComponent(query)}`, class: "card" }, element("span", { class: "english" }, english), element("code", {}, query), more),
  );
}
