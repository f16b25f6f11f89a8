// A page for every entity, concept and relation, and for the schema.

import * as api from "./api.js";
import { allRelations, predicts } from "./choices.js";
import { counted, element, link, number, shape } from "./dom.js";
import { drawNetwork } from "./network.js";
import { ANYTHING, some, write } from "./tree.js";

const FACTS = 10;
const MORE = 100;

/** A question as a link. */
const ask = (tree, words) => element("a", { class: "ask-link", href: `?q=${encodeURIComponent(write(tree))}` }, words);

const title = (role, label) => element("h1", { tabindex: "-1" }, shape(role), label);

const names = (role, things, none = "none") =>
  things.length ? element("ul", { class: "names" }, things.map((each) => element("li", {}, link(role, each), each.count ? count(each.count) : null))) : none;

const count = (times) => element("span", { class: "count" }, typeof times === "number" ? number(times) : times);

const facts = (...pairs) =>
  element("dl", { class: "card-facts" }, pairs.filter(Boolean).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));

const synonyms = (card) => (card.synonyms?.length ? ["Also called", card.synonyms.join(", ")] : null);

const code = ({ iri }) => ["IRI", element("code", {}, iri.replace(/^<(.*)>$/, "$1"))];

/** Facts in or out of an entity, by relation. */
function groups(card, direction) {
  const entity = { kind: "entity", iri: card.iri, label: card.label };
  const outgoing = direction.endsWith("outgoing");
  return card[direction].map(({ relation, count: total, values }) => {
    const list = element("ul", { class: "names" }, values.map(value));
    const rest = total - values.length;
    const more = async () => {
      const page = { predicted: direction.startsWith("predicted"), limit: MORE, offset: list.children.length, relation: relation.iri.replace(/[<>]/g, "") };
      const grown = await api.entityCard(card.iri, page);
      list.append(...grown[direction].find((each) => each.relation.iri === relation.iri).values.map(value));
      if (list.children.length >= total) button.remove();
    };
    const button = rest > 0 ? element("button", { type: "button", class: "quiet more", onclick: more }, `Show ${rest > MORE ? `${MORE} of ${number(rest)}` : rest} more`) : null;
    const words = outgoing ? [link("relation", relation), " …"] : ["… ", link("relation", relation), " it"];
    return element(
      "section",
      { class: "fact-group" },
      element("h3", {}, words, count(total), ask(some(relation, outgoing, entity), "ask")),
      list,
      button,
    );
  });
}

/** A value with its probability and the attributes of its fact: evidence, references. */
function value(each) {
  const told = Object.entries(each.attributes ?? {}).map(([name, values]) => `${name}: ${[values].flat().join(", ")}`);
  const likely = each.degree < 1 ? count(each.degree.toFixed(2)) : null;
  return element("li", {}, link("entity", each), likely, told.length ? element("span", { class: "attributes" }, told.join("; ")) : null);
}

async function entity(iri) {
  const [card, run] = await Promise.all([api.entityCard(iri, { limit: FACTS }), predicts()]);
  const frame = element("div", { class: "network", role: "img", "aria-label": `${card.label} and its neighbours; each is also in the lists below` });
  const [out, into] = ["outgoing", "incoming"].map((direction) => groups(card, direction));
  const view = element(
    "div",
    {},
    title("entity", card.label),
    facts(["Is a", names("concept", card.types)], synonyms(card), code(card)),
    ask({ kind: "entity", iri: card.iri, label: card.label }, `Ask about ${card.label}`),
    element("p", { class: "rest" }, "A click on a name in the picture shows what is around it; a second one opens its page."),
    frame,
    out.length ? element("h2", {}, "Facts") : null,
    element("div", { class: "fact-groups" }, out),
    into.length ? element("h2", {}, "Facts that lead here") : null,
    element("div", { class: "fact-groups" }, into),
    run ? predictions(card) : null,
  );
  return { view, label: card.label, ready: () => drawNetwork(frame, card) };
}

/** What a model predicts of an entity, asked for when it is opened. */
function predictions(card) {
  const frame = element("div", { class: "fact-groups" });
  const section = element("details", { class: "operation" }, element("summary", {}, "Predicted facts"), frame);
  section.addEventListener("toggle", async () => {
    if (!section.open || frame.children.length) return;
    const found = await api.entityCard(card.iri, { limit: FACTS, predicted: true });
    const all = ["predicted_outgoing", "predicted_incoming"].flatMap((direction) => groups(found, direction));
    frame.replaceChildren(...(all.length ? all : [element("p", { class: "none" }, "None is likely enough.")]));
  });
  return section;
}

async function concept(iri) {
  const [card, links] = await Promise.all([api.concept(iri), api.relations({ concept: iri, limit: MORE }).catch(() => ({ relations: [] }))]);
  const node = { kind: "concept", iri: card.iri, label: card.label };
  const used = (direction) => links.relations.filter((each) => each.direction === direction);
  const view = element(
    "div",
    {},
    title("concept", card.label),
    facts(
      ["Instances", number(card.count)],
      ["Above it", names("concept", card.parents)],
      ["Below it", names("concept", card.children)],
      synonyms(card),
      code(card),
    ),
    ask(node, `Ask for every ${card.label}`),
    element("h2", {}, "Relations of its instances"),
    facts(["What they do", names("relation", used("forward"))], ["What is done to them", names("relation", used("inverse"))]),
    element("h2", {}, "Instances"),
    names("entity", card.instances, element("p", { class: "none" }, "It has no instances.")),
    card.count > card.instances.length ? element("p", { class: "rest" }, `and ${number(card.count - card.instances.length)} more: `, ask(node, "all of them")) : null,
  );
  return { view, label: card.label };
}

async function relation(iri) {
  const { relation: card, synonyms: other, facts: found } = await api.relationCard(iri);
  const fact = ({ subject, object, attributes }) => {
    const line = value({ attributes, ...object });
    line.prepend(link("entity", subject), ` ${card.label} `);
    return line;
  };
  const view = element(
    "div",
    {},
    title("relation", card.label),
    facts(["Facts", number(card.count)], ["Leads from", names("concept", card.domain)], ["Leads to", names("concept", card.range)], synonyms({ synonyms: other }), code(card)),
    element("p", {}, ask(some(card, false, ANYTHING), `What ${card.label} something`), " ", ask(some(card, true, ANYTHING), `What something ${card.label}`)),
    element("h2", {}, "Facts"),
    element("ul", { class: "fact-lines" }, found.map(fact)),
    card.count > found.length ? element("p", { class: "rest" }, `and ${number(card.count - found.length)} more`) : null,
  );
  return { view, label: card.label };
}

/** The concept tree, which opens level by level, and the relations with what they join. */
async function schema() {
  const [roots, { relations, total }] = await Promise.all([api.concepts({ parent: "top", limit: 500 }), allRelations()]);
  const row = ({ iri, label, count: times, domain, range }) =>
    element("tr", {}, element("th", { scope: "row" }, link("relation", { iri, label })), ...[domain, range].map((ends) => element("td", {}, names("concept", ends.slice(0, 3)))), element("td", { class: "number" }, number(times)));
  const view = element(
    "div",
    {},
    element("h1", { tabindex: "-1" }, "Schema"),
    element(
      "div",
      { class: "schema" },
      element("section", { "aria-labelledby": "tree-title" }, element("h2", { id: "tree-title" }, "Concepts"), branch(roots.concepts)),
      element(
        "section",
        { "aria-labelledby": "relations-title" },
        element("h2", { id: "relations-title" }, counted(total, "relation"), relations.length < total ? `, the ${relations.length} most frequent` : null),
        element("div", { class: "table", tabindex: "0", role: "region", "aria-labelledby": "relations-title" }, element(
          "table",
          {},
          element("thead", {}, element("tr", {}, ["relation", "from", "to", "facts"].map((name) => element("th", { scope: "col" }, name)))),
          element("tbody", {}, relations.map(row)),
        )),
      ),
    ),
  );
  return { view, label: "Schema" };
}

function branch(concepts) {
  return element("ul", { class: "branch" }, concepts.map((each) => {
    const name = [link("concept", each), count(each.count)];
    if (!each.children) return element("li", {}, name);
    const node = element("details", {}, element("summary", { "aria-label": `Below ${each.label}` }), element("div", { class: "below" }));
    node.addEventListener("toggle", async () => {
      if (!node.open || node.lastChild.children.length) return;
      const below = await api.concepts({ parent: each.iri.replace(/[<>]/g, ""), limit: 500 });
      node.lastChild.replaceChildren(branch(below.concepts));
    });
    return element("li", {}, element("span", { class: "beside" }, name), node);
  }));
}

const PAGES = { entity, concept, relation };

/** The view of an address after `#/`: {view, label, ready}; null where it names none of these. */
export function exploreView(role, iri) {
  if (role === "schema") return schema();
  return Object.hasOwn(PAGES, role) && iri ? PAGES[role](iri) : null;
}

