// The question as a sentence of chips: each is a choice that can be changed, and what can follow is a choice away.

import { conditions, heads, operands, turns } from "./choices.js";
import { byId, element } from "./dom.js";
import { openMenu } from "./menu.js";
import { ANYTHING, isAnything, join, some, split } from "./tree.js";

/** The builder. `built(tree)` is called with every change; it answers when the page shows the tree. */
export class Builder {
  #frame = byId("builder");
  #built;
  #next = null;

  constructor({ built }) {
    this.#built = built;
    this.show(null);
  }

  /** Shows a tree; null is the beginning. */
  show(tree) {
    const noun = tree ?? ANYTHING;
    this.#frame.replaceChildren(
      element("span", { class: "word" }, "Find"),
      ...this.#noun(noun, (changed, next) => this.#put(changed, next), [], "anything"),
    );
    if (tree && !isAnything(tree)) this.#frame.append(this.#turn(tree));
    this.#frame.classList.remove("stale");
    if (this.#next) this.#frame.querySelector(`[data-place="${this.#next}"]`)?.click();
    this.#next = null;
  }

  /** The text has changed, and its tree is still to come. */
  wait() {
    this.#frame.classList.add("stale");
  }

  /** `next` is the place of a chip that opens as soon as the tree is there: what is still to be said. */
  async #put(tree, next = null) {
    this.#next = next;
    await this.#built(tree);
  }

  /** A thing and what is said of it. `place` is where it stands in the tree, for `#next`. */
  #noun(tree, put, place, nothing = "something", from = null) {
    const { head, conditions: said } = split(tree);
    const here = place.join(".");
    const change = (changed) => put(join(changed, said));
    const wide = (text) => (from ? operands(from.link, from.noun, text, change) : heads(text, said, change, (link) => put(join(head, [...said, some(link, false)]), null)));
    const chips = [
      this.#chip(isAnything(head) ? nothing : head.label, `noun ${head.kind}`, `${here}:head`, "What to find", wide),
      ...said.flatMap((each, row) => [
        element("span", { class: "word" }, row ? "and that" : "that"),
        ...this.#condition(
          each,
          (changed, next) => put(join(head, changed ? said.with(row, changed) : said.toSpliced(row, 1)), next),
          [...place, row],
          join(head, said.toSpliced(row, 1)),
        ),
      ]),
    ];
    const grown = (condition) => put(join(head, [...said, condition]), condition.kind === "some" ? `${[...place, said.length].join(".")}:head` : null);
    const more = (text) => conditions(tree, text, grown);
    if (head.kind !== "entity") chips.push(this.#more(head, tree, place, more));
    return chips;
  }

  /** One condition; `noun` is the thing without it, from which its values follow. */
  #condition(node, put, place, noun) {
    const within = (changed, next) => put(changed && { ...node, operand: changed }, next);
    if (node.kind === "not") return [this.#plain("not", () => put(node.operand), "Say the opposite"), ...this.#condition(node.operand, within, place, ANYTHING)];
    if (node.kind === "some") return this.#link(node, put, place, noun);
    const remove = this.#remove(() => put(null));
    if (node.kind === "or") {
      const either = node.operands.flatMap((each, row) => [
        element("span", { class: "word" }, row ? "or" : "is either"),
        ...this.#group(this.#noun(each, (changed, next) => put({ ...node, operands: node.operands.with(row, changed) }, next), [...place, row])),
      ]);
      return [...either, remove];
    }
    if (node.kind === "text") return [element("code", { class: "chip fixed" }, node.label), remove];
    return [element("span", { class: "word" }, "is"), ...this.#group(this.#noun(node, put, place)), remove];
  }

  /** A relation and what it leads to; turned round, what it comes from stands first: "that Google uses". */
  #link(node, put, place, noun) {
    const rest = this.#noun(node.operand, (changed, next) => put({ ...node, operand: changed }, next), place, "something", { link: node, noun });
    const deny = { label: "not so", role: "relation", chosen: () => put({ kind: "not", operand: node }) };
    const others = async (text) => [
      ...(await conditions(noun, text, (condition) => put(condition.kind === "some" ? { ...condition, operand: node.operand } : condition))).slice(0, 2),
      { title: "This condition", options: [deny, { label: "remove", role: "relation", chosen: () => put(null) }] },
    ];
    const relation = this.#chip(node.relation.label, "relation", `${place.join(".")}:link`, "The relation", others);
    const group = split(node.operand).conditions.length ? this.#group(rest) : rest;
    return [...(node.inverse ? [...group, relation] : [relation, ...group]), this.#remove(() => put(null), node.relation.label)];
  }

  #group(chips) {
    return [element("span", { class: "nest" }, ...chips)];
  }

  #chip(label, kind, place, title, load) {
    const open = () => openMenu(chip, { label: title, load });
    const chip = element("button", { type: "button", class: `chip ${kind}`, "data-place": place, "aria-haspopup": "dialog", "aria-expanded": "false", onclick: open }, label);
    return chip;
  }

  /** What adds a condition: a word at the beginning, later a sign. */
  #more(head, tree, place, load) {
    const [sign, kind] = place.length ? ["+", "more plus"] : [isAnything(tree) || tree === head ? "that …" : "and that …", "more"];
    const chip = this.#chip(sign, kind, `${place.join(".")}:more`, `A condition on ${head.label}`, load);
    if (place.length) chip.setAttribute("aria-label", `Add a condition on ${head.label}`);
    return chip;
  }

  #plain(label, onclick, title) {
    return element("button", { type: "button", class: "chip not", title, onclick }, label);
  }

  #remove(onclick, what = "") {
    return element("button", { type: "button", class: "remove", "aria-label": `Remove the condition ${what}`.trim(), onclick }, "×");
  }

  #turn(tree) {
    return this.#chip("ask about them …", "turn", "turn", "A question about these answers", () => turns(tree, (wrapped) => this.#put(wrapped, ":head")));
  }
}
