// What is wrong with a question: a mark in the box, a caret under the place, and names that may have been meant.

import { isSparql, search, useKey } from "./api.js";
import { ways } from "./choices.js";
import { byId, element, link, shape } from "./dom.js";
import { tokenEnd } from "./tokens.js";
import { write } from "./tree.js";

const FOUND = 5;

/** The message under the box. `retry()` asks again. */
export class Trouble {
  #box = byId("error");
  #hint = byId("hint");
  #editor;
  #retry;

  constructor({ editor, retry }) {
    this.#editor = editor;
    this.#retry = retry;
  }

  clear() {
    this.#box.hidden = true;
    this.#box.replaceChildren();
    this.#hint.textContent = "";
    this.#editor.mark(null);
  }

  /** While typing: a quiet line, and no mark at the end of the text, where the next word is still to come. */
  hint(problem, text) {
    if (problem.position === null) return;
    const range = rangeOf(problem, text);
    this.#hint.textContent = problem.message;
    if (range.end < text.trimEnd().length) this.#editor.mark(range);
  }

  /** After asking: the whole message. */
  report(problem, text) {
    this.#hint.textContent = "";
    if (problem.status === 401) this.#box.replaceChildren(this.#keyForm());
    else this.#box.replaceChildren(element("p", { class: "message" }, problem.message));
    if (problem.position !== null) {
      const range = rangeOf(problem, text);
      this.#editor.mark(range);
      this.#box.append(...pointer(text, range.start), ...this.#candidates(problem, range));
    }
    if (problem.passing) {
      this.#box.append(element("button", { type: "button", class: "quiet", onclick: this.#retry }, "Try again"));
    }
    this.#box.hidden = false;
    if (problem.position !== null && !isSparql(text)) this.#find(text);
  }

  /** What the words of a text name, and what can be asked with the first of it: perhaps that was meant. */
  async #find(text) {
    const { results } = await search(text.slice(0, 200), FOUND).catch(() => ({ results: [] }));
    const entity = results.find(({ role }) => role === "entity");
    const asked = entity ? await ways(entity).catch(() => []) : [];
    if (!results.length || this.#editor.text.trim() !== text) return;
    const named = results.map((each) => element("li", {}, shape(each.role), link(each.role, each)));
    const questions = asked.map(({ label, tree }) => element("li", {}, element("a", { href: `?q=${encodeURIComponent(write(tree))}` }, label)));
    this.#box.append(element("div", { class: "found" }, element("p", {}, "These names were found:"), element("ul", {}, named, questions)));
  }

  /** The server wants a key: a place to give it. */
  #keyForm() {
    const input = element("input", { type: "password", id: "api-key", autocomplete: "off", required: true });
    const given = (event) => {
      event.preventDefault();
      useKey(input.value);
      this.#retry();
    };
    const send = element("button", { type: "submit", class: "quiet" }, "Use this key");
    const label = element("label", { for: "api-key", class: "message" }, "This server wants an API key");
    return element("form", { class: "wants-key", onsubmit: given }, label, element("div", { class: "key" }, input, send));
  }

  /** Buttons that put a candidate in the place of the wrong name. */
  #candidates({ candidates }, { start, end }) {
    if (!candidates.length) return [];
    const buttons = candidates.map((name) =>
      element("button", { type: "button", class: "quiet", onclick: () => this.#editor.replace(start, end, written(name)) }, name),
    );
    return [element("p", { class: "meant" }, element("span", {}, "Use"), ...buttons)];
  }
}

/** The wrong token. The server counts code points, the page UTF-16 units. */
function rangeOf({ position }, text) {
  const start = Array.from(text).slice(0, position).join("").length;
  return { start, end: tokenEnd(text, start) };
}

/** The line of the text around a position, and a caret under it; as much of it as fits. */
function pointer(text, position) {
  const fits = innerWidth < 560 ? 34 : 84;
  const from = text.lastIndexOf("\n", position - 1) + 1;
  const line = text.slice(from).split("\n", 1)[0];
  const column = position - from;
  const cut = line.length > fits ? Math.max(0, Math.min(column - Math.floor(fits / 2), line.length - fits)) : 0;
  const excerpt = line.slice(cut, cut + fits).replace(/\s/g, " ");
  return [
    element("pre", { class: "pointer", "aria-hidden": "true" }, `${excerpt}\n${" ".repeat(column - cut)}`, element("b", {}, "^")),
    element("span", { class: "visually-hidden" }, `At character ${position + 1}.`),
  ];
}

/** A candidate as a query writes it: an IRI in angle brackets, a name with spaces in quotes. */
function written(name) {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(name)) return `<${name}>`;
  return /^[^\s(){}[\],<>"'?][^\s(){}[\],<>"]*$/.test(name) ? name : `'${name.replace(/[\\']/g, "\\$&")}'`;
}
