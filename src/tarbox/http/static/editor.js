// The expression box: coloured text behind a text area, completion as a combobox, and a mark where an error is.

import { complete, drawing, search } from "./api.js";
import { ways } from "./choices.js";
import { byId, element, shape } from "./dom.js";
import { context, tokenise } from "./tokens.js";
import { write } from "./tree.js";

const LIMIT = 8;
const WAYS = 6;
const PAUSE = 90;

/** The box. `changed(text)` is called on every edit, `submitted(text)` on Enter or the button. */
export class Editor {
  #area = byId("query");
  #mirror = byId("mirror");
  #list = byId("completions");
  #options = [];
  #active = -1;
  #range = { start: 0, end: 0 };
  #error = null;
  #timer = 0;
  #pending = null;
  #changed;
  #submitted;

  constructor({ changed, submitted }) {
    this.#changed = changed;
    this.#submitted = submitted;
    this.#area.addEventListener("input", () => this.#edited());
    this.#area.addEventListener("keydown", (event) => this.#pressed(event));
    this.#area.addEventListener("blur", () => this.#close());
    this.#list.addEventListener("mousedown", (event) => this.#clicked(event));
    byId("ask-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#close();
      this.#submitted(this.text);
    });
    this.#paint();
  }

  get text() {
    return this.#area.value;
  }

  set text(value) {
    this.#area.value = value;
    this.#error = null;
    this.#close();
    this.#paint();
  }

  focus() {
    this.#area.focus();
    this.#area.setSelectionRange(this.text.length, this.text.length);
  }

  /** Marks [start, end) as wrong, or nothing. */
  mark(range) {
    this.#error = range;
    if (range) this.#area.setAttribute("aria-invalid", "true");
    else this.#area.removeAttribute("aria-invalid");
    this.#paint();
  }

  /** Puts `replacement` in the place of [start, end), as if it had been typed: undo takes it back. */
  replace(start, end, replacement) {
    this.#area.focus();
    this.#area.setSelectionRange(start, end);
    if (!document.execCommand("insertText", false, replacement)) {
      this.#area.setRangeText(replacement, start, end, "end");
      this.#area.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }

  #edited() {
    this.mark(null);
    this.#changed(this.text);
    this.#schedule(false);
  }

  /** The text again, behind the text area and in colour; it also gives the box its height. */
  #paint() {
    const pieces = tokenise(this.text).map(({ kind, text, start, end }) => {
      const wrong = this.#error && start < this.#error.end && this.#error.start < end;
      return element("span", { class: wrong ? `${kind} wrong` : kind }, text);
    });
    const beyond = this.#error && this.#error.start >= this.text.trimEnd().length;
    this.#mirror.replaceChildren(...pieces, element("span", { class: beyond ? "wrong end" : "end" }, "\u200b"));
  }

  #pressed(event) {
    const open = !this.#list.hidden;
    const keys = {
      ArrowDown: () => (open ? this.#activate(this.#active + 1) : event.altKey && this.#schedule(true)),
      ArrowUp: () => open && this.#activate(this.#active - 1),
      Home: () => open && this.#active >= 0 && this.#activate(0),
      End: () => open && this.#active >= 0 && this.#activate(this.#options.length - 1),
      Escape: () => open && this.#close(),
      Tab: () => open && this.#active >= 0 && !event.shiftKey && this.#accept(this.#active),
      Enter: () => (open && this.#active >= 0 ? this.#accept(this.#active) : this.#submit(event)),
      " ": () => event.ctrlKey && this.#schedule(true),
    };
    if (event.isComposing || !Object.hasOwn(keys, event.key)) return;
    if (keys[event.key]() !== false) event.preventDefault();
  }

  #submit(event) {
    if (event.shiftKey) return false;
    byId("ask-form").requestSubmit();
    return true;
  }

  /** Looks for completions, after a pause or, when asked for, at once and also with nothing typed. */
  #schedule(asked) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#suggest(asked), asked ? 0 : PAUSE);
  }

  async #suggest(asked) {
    const { text } = this;
    const caret = this.#area.selectionEnd;
    const here = context(text, caret);
    if ((!here.prefix && !asked) || /^\s*(select|prefix)\b/i.test(text)) return this.#close();
    this.#pending?.abort();
    this.#pending = new AbortController();
    const found = here.keywords.filter((word) => word.startsWith(here.prefix.toLowerCase()));
    const keywords = found.map((name) => ({ name, label: "", role: "keyword" }));
    let [names, values] = [[], []];
    try {
      const { signal } = this.#pending;
      [values, ...names] = await Promise.all([
        here.keywords.includes("not") && here.prefix.length > 1 ? valuesNamed(here.prefix, signal) : [],
        ...here.roles.map((role) => complete(here.prefix, role, LIMIT, signal)),
      ]);
    } catch {
      return this.#close(); // completion is a convenience: the answer itself reports what is wrong
    }
    if (this.text !== text || this.#area.selectionEnd !== caret || document.activeElement !== this.#area) return undefined;
    const offered = [...keywords, ...interleave(names)].slice(0, LIMIT).concat(values);
    const typed = text.slice(here.start, here.end);
    if (!offered.length || (offered.length === 1 && offered[0].name === typed)) return this.#close();
    this.#range = here;
    return this.#open(offered);
  }

  #open(options) {
    this.#options = options;
    this.#list.replaceChildren(...options.map(optionElement));
    this.#list.hidden = false;
    this.#area.setAttribute("aria-expanded", "true");
    this.#activate(-1);
    this.#settle();
    return true;
  }

  #close() {
    clearTimeout(this.#timer);
    this.#pending?.abort();
    this.#list.hidden = true;
    this.#area.setAttribute("aria-expanded", "false");
    this.#activate(-1);
    return true;
  }

  /** Places the list below the word it completes, inside the box. */
  #settle() {
    const measure = document.createRange();
    const pieces = Array.from(this.#mirror.childNodes);
    let rest = this.#range.start;
    const piece = pieces.find((span) => (rest < span.textContent.length ? true : ((rest -= span.textContent.length), false)));
    const text = (piece ?? pieces.at(-1)).firstChild;
    measure.setStart(text, Math.min(rest, text.length));
    measure.collapse(true);
    const at = measure.getBoundingClientRect();
    const frame = this.#list.offsetParent.getBoundingClientRect();
    const left = Math.min(at.left - frame.left, frame.width - this.#list.offsetWidth);
    this.#list.style.setProperty("left", `${Math.max(0, left)}px`);
    this.#list.style.setProperty("top", `${at.bottom - frame.top + 16}px`);
  }

  /** Moves through the options, past either end back to the text. */
  #activate(row) {
    const count = this.#options.length;
    this.#active = row >= count ? -1 : row < -1 ? count - 1 : row;
    Array.from(this.#list.children).forEach((option, index) => {
      option.setAttribute("aria-selected", String(index === this.#active));
      if (index === this.#active) option.scrollIntoView({ block: "nearest" });
    });
    if (this.#active >= 0) this.#area.setAttribute("aria-activedescendant", `completion-${this.#active}`);
    else this.#area.removeAttribute("aria-activedescendant");
  }

  async #accept(row) {
    const { start, end } = this.#range;
    const { name, tree } = this.#options[row];
    const rest = this.text.slice(0, start) + this.text.slice(end);
    const follows = /^[\s)},]/.test(this.text.slice(end));
    this.#close();
    if (tree && !rest.trim()) return this.#submitted(write(tree)); // a whole question
    const text = tree ? `(${(await drawing(write(tree))).canonical})` : name;
    this.replace(start, end, text + (follows ? "" : " "));
    return this.#close();
  }

  #clicked(event) {
    event.preventDefault(); // the text area keeps the focus
    const option = event.target.closest("[role=option]");
    if (option) this.#accept(Array.from(this.#list.children).indexOf(option));
  }
}

function optionElement({ name, label, role }, index) {
  const plain = name.replace(/^'(.*)'$/, "$1");
  return element(
    "li",
    { role: "option", id: `completion-${index}`, class: role, "aria-selected": "false" },
    shape(role === "way" ? "relation" : role),
    element("span", { class: "name" }, name),
    label && label !== plain ? element("span", { class: "label" }, label) : null,
    element("span", { class: "role" }, role === "way" ? "" : role),
  );
}

/** Entities that a word names where a condition can stand, and for the best of them what it can be asked. */
async function valuesNamed(prefix, signal) {
  const { results } = await search(prefix, LIMIT, signal);
  const entities = results.filter(({ role }) => role === "entity").slice(0, 3);
  const uses = entities.length ? (await ways(entities[0])).slice(0, WAYS) : [];
  const itself = entities.map(({ iri, label, name }) => ({ name: label, label: name, role: "entity", tree: { kind: "entity", iri, label } }));
  return [...itself.slice(0, 1), ...uses.map(({ label, count, tree }) => ({ name: label, label: String(count), role: "way", tree })), ...itself.slice(1)];
}

/** The lists as one, best of each first. */
function interleave(lists) {
  const longest = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, row) => lists.map((list) => list[row])).flat().filter(Boolean);
}
