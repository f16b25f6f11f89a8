// A list that opens under a button: what can be chosen there, and a field that searches for more.

import { byId, element, number, shape } from "./dom.js";

const PAUSE = 120;
let count = 0;

/**
 * Opens a menu under `anchor`. `load(text)` gives groups [{title, options: [{label, detail, count, role, chosen}]}] for
 * what is typed in its field; with a `placeholder` of null there is no field. Whatever opened before closes.
 */
export function openMenu(anchor, { label, load, placeholder = "Search" }) {
  byId("menu")?.close();
  const menu = new Menu(anchor, label, load, placeholder);
  return menu.frame;
}

class Menu {
  frame;
  #anchor;
  #field;
  #list;
  #load;
  #options = [];
  #active = -1;
  #timer = 0;
  #turn = 0;

  constructor(anchor, label, load, placeholder) {
    this.#anchor = anchor;
    this.#load = load;
    this.#list = element("div", { role: "listbox", id: "menu-list", class: "choices", "aria-label": label, tabindex: "-1" });
    this.#field = element("input", {
      type: "search", role: "combobox", "aria-expanded": "true", "aria-controls": "menu-list", "aria-autocomplete": "list",
      "aria-label": label, placeholder, autocomplete: "off", spellcheck: "false",
      oninput: () => this.#soon(), hidden: placeholder === null,
    });
    this.frame = element("div", { id: "menu", class: "menu", role: "dialog", "aria-label": label }, this.#field, this.#list);
    this.frame.close = () => this.#close(false);
    this.frame.addEventListener("keydown", (event) => this.#pressed(event));
    this.#list.addEventListener("click", (event) => this.#clicked(event));
    anchor.setAttribute("aria-expanded", "true");
    document.body.append(this.frame);
    document.addEventListener("pointerdown", this.#outside, true);
    addEventListener("popstate", this.frame.close);
    this.#settle();
    if (matchMedia("(pointer: fine)").matches && placeholder !== null) this.#field.focus({ preventScroll: true });
    else this.#list.focus({ preventScroll: true }); // a keyboard would cover the list
    this.#fill();
  }

  #outside = (event) => {
    if (!this.frame.contains(event.target)) this.#close(false);
  };

  #close(back = true) {
    clearTimeout(this.#timer);
    document.removeEventListener("pointerdown", this.#outside, true);
    removeEventListener("popstate", this.frame.close);
    this.#anchor.setAttribute("aria-expanded", "false");
    this.frame.remove();
    this.#turn = -1;
    if (back && this.#anchor.isConnected) this.#anchor.focus();
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#fill(), PAUSE);
  }

  async #fill() {
    const turn = ++this.#turn;
    const text = this.#field.value.trim();
    let groups = [];
    let lacking = text ? `Nothing found for “${text}”` : "Nothing can follow here";
    try {
      groups = await this.#load(text);
    } catch (problem) {
      lacking = problem.message;
    }
    if (turn !== this.#turn) return;
    const found = groups.map((group) => ({ ...group, options: fitting(group.options, text) }));
    this.#options = found.flatMap(({ options }) => options);
    const none = element("p", { class: "none" }, lacking);
    this.#list.replaceChildren(...(this.#options.length ? found.filter(({ options }) => options.length).map((group) => this.#group(group)) : [none]));
    this.#activate(text ? 0 : -1);
    this.#settle();
  }

  #group({ title, options }) {
    const id = `menu-group-${++count}`;
    return element("div", { role: "group", "aria-labelledby": id }, element("p", { id, class: "group" }, title), options.map(choice));
  }

  #activate(row) {
    const last = this.#options.length - 1;
    this.#active = row > last ? 0 : row < -1 ? last : row;
    this.#list.querySelectorAll("[role=option]").forEach((option, index) => {
      option.id = `choice-${index}`;
      option.setAttribute("aria-selected", String(index === this.#active));
      if (index === this.#active) option.scrollIntoView({ block: "nearest" });
    });
    if (this.#active >= 0 && last >= 0) this.#field.setAttribute("aria-activedescendant", `choice-${this.#active}`);
    else this.#field.removeAttribute("aria-activedescendant");
  }

  #pressed(event) {
    const keys = {
      ArrowDown: () => this.#activate(this.#active + 1),
      ArrowUp: () => this.#activate(this.#active - 1),
      Enter: () => this.#choose(this.#active),
      Escape: () => this.#close(),
      Tab: () => this.#close(),
    };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  }

  #clicked(event) {
    const option = event.target.closest("[role=option]");
    if (option) this.#choose(Array.from(this.#list.querySelectorAll("[role=option]")).indexOf(option));
  }

  #choose(row) {
    const option = this.#options[row];
    if (!option) return;
    this.#close(false);
    option.chosen();
  }

  /** Under the button, inside the window. */
  #settle() {
    const at = this.#anchor.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, innerWidth - this.frame.offsetWidth - 8));
    this.frame.style.setProperty("left", `${left + scrollX}px`);
    this.frame.style.setProperty("top", `${at.bottom + scrollY + 4}px`);
  }
}

/** The options whose label or detail has every word of the text; those found by a search are fitting anyway. */
function fitting(options, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return options.filter(({ label, detail = "", found }) => found || words.every((word) => `${label} ${detail}`.toLowerCase().includes(word)));
}

function choice({ label, detail, count: times, role }) {
  return element(
    "div",
    { role: "option", "aria-selected": "false" },
    shape(role),
    element("span", { class: "label" }, label),
    detail ? element("span", { class: "detail" }, detail) : null,
    times === undefined ? null : element("span", { class: "count" }, number(times)),
  );
}
