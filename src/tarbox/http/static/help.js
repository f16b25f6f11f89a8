// How to ask, in a minute.

import { element } from "./dom.js";

const HELP = [
  ["With the mouse", [
    "“Find anything” stands above the box. A click on a word shows what can stand there: concepts first, then the relations that occur for them, each with the number of facts, then the values that occur.",
    "“that …” adds a condition, “×” takes one away, “ask about them …” makes the answers part of the next question. The answers follow every choice.",
  ]],
  ["With a few letters", [
    "Type a name in the box: in the embedded knowledge base “hinton” finds Geoffrey Hinton and what can be asked with him. Concepts, relations and entities are found together, also by other names they have.",
  ]],
  ["In writing", [
    "The box takes class expressions in Manchester syntax, as Protégé does: Person and (worksAt some University) and not (bornIn value Canada). “some” is followed by a kind of thing, “value” by one thing; “inverse” turns a relation round. “not” means: not in the set.",
    "SPARQL (SELECT of one variable) and the page's own English (“every Person that works at a University”) are understood too.",
  ]],
  ["Answers", [
    "Entities answer the question; concepts describe the answers. Known ones follow from the facts, predicted ones are a model's, with their probability. Drag “Predictions from” to see more or fewer.",
    "A click on a row says why it is an answer; a click on a name opens its page.",
    "Degree: how far an answer is one; 1 is certain. Coverage: the share of the answers inside a concept. Specificity: 0 where everything is inside it, 1 where a single thing is.",
  ]],
  ["Elsewhere", [
    "“Export” saves the answers as CSV, JSON or Turtle and shows the question for curl and Python. “Schema” has the concept tree and the relations, “Questions” what you asked, “API” what programs can ask.",
  ]],
];

export function helpView() {
  const parts = HELP.flatMap(([title, paragraphs]) => [element("h2", {}, title), ...paragraphs.map((text) => element("p", {}, text))]);
  return element("div", { class: "help" }, element("h1", { tabindex: "-1" }, "Help"), parts);
}
