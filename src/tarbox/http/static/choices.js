// What can follow in a question: concepts, relations that occur, and values.

import * as api from "./api.js";
import { ANYTHING, isAnything, join, some, split, write } from "./tree.js";

const MANY = 200;
const VALUES = 300;
const kept = new Map();

/** A reply that is asked for once. */
function once(key, load) {
  if (!kept.has(key)) kept.set(key, load().catch((problem) => (kept.delete(key), Promise.reject(problem))));
  return kept.get(key);
}

export const predicts = () => once("kb", async () => Boolean((await api.knowledgeBase()).model));

export const allRelations = () => once("relations", () => api.relations({ limit: MANY }));

const topConcepts = () => once("concepts", async () => (await api.concepts({ limit: MANY })).concepts);

const node = ({ iri, label, role }) => ({ kind: role, iri, label });

/** What a word finds, as options: concepts and entities that `put` takes, and relations that `link` takes. */
async function found(text, put, link) {
  if (!text) return [];
  const { results } = await api.search(text, 20);
  return results
    .filter(({ role }) => role !== "relation" || link)
    .map((each) => ({
      ...each,
      found: true,
      detail: each.matched && each.matched !== each.label ? each.matched : each.role,
      chosen: () => (each.role === "relation" ? link(each) : put(node(each))),
    }));
}

const conceptOption = (put) => (each) => ({ ...each, role: "concept", chosen: () => put({ kind: "concept", ...each }) });

/**
 * What can stand at the head of a question with these conditions: the concepts of what fulfils them, then all concepts,
 * the most used first; or what a word finds, and what can be asked with it.
 */
export async function heads(text, said, put, link) {
  const anything = { label: "anything", role: "concept", chosen: () => put(ANYTHING) };
  const fulfilled = said.length ? write(join(ANYTHING, said)) : null;
  const [concepts, described, searched] = await Promise.all([
    topConcepts(),
    fulfilled ? once(`heads ${fulfilled}`, () => api.answer(fulfilled, 20)) : { concepts: [] },
    found(text, put, link),
  ]);
  const entity = searched.find(({ role }) => role === "entity");
  const used = entity ? (await ways(entity)).map((way) => ({ ...way, role: "relation", found: true, chosen: () => put(way.tree) })) : [];
  const fitting = described.concepts.filter(({ status }) => status === "known").map(({ iri, label }) => conceptOption(put)({ iri, label }));
  const seen = new Set(fitting.map(({ iri }) => iri));
  const others = concepts.filter(({ iri }) => !seen.has(iri));
  if (searched.length) return [{ title: "Found", options: searched }, { title: `With ${entity?.label}`, options: used }];
  return [
    { title: "Kinds among the answers", options: fitting },
    { title: fulfilled ? "Other concepts" : "Concepts", options: [anything, ...others.map(conceptOption(put))] },
  ];
}

/** The concepts at one end of a relation, the most frequent first. */
async function endsOf(relation, end) {
  const card = await once(`relation ${relation.iri}`, () => api.relationCard(relation.iri));
  return card.relation[end];
}

/** What a relation leads to from `noun`, a tree: its concepts, the values that occur, or what a word finds. */
export async function operands({ relation, inverse }, noun, text, put) {
  const turned = write(some(relation, !inverse, noun));
  const [ends, values, counts, searched] = await Promise.all([
    endsOf(relation, inverse ? "domain" : "range"),
    once(turned, () => api.answer(turned, VALUES)),
    once(`${relation.iri} ${inverse}`, () => api.factCounts(relation.iri, inverse, VALUES)).catch(() => new Map()), // their order only
    found(text, put),
  ]);
  const anything = { label: "something", detail: "anything at all", role: "concept", chosen: () => put(ANYTHING) };
  const occurring = values.entities
    .filter(({ status }) => status === "known")
    .map(({ iri, label }) => ({ iri, label, role: "entity", count: counts.get(iri), chosen: () => put({ kind: "entity", iri, label }) }))
    .toSorted((one, other) => (other.count ?? 0) - (one.count ?? 0));
  const listed = [
    { title: "Anything of a kind", options: [anything, ...ends.map(conceptOption(put))] },
    { title: values.known_count > occurring.length ? `Values: ${occurring.length} of ${values.known_count}` : "Values", options: occurring },
  ];
  const seen = new Set(listed.flatMap(({ options }) => options.map(({ iri }) => iri)));
  return [...listed, { title: "Elsewhere", options: searched.filter(({ iri }) => !seen.has(iri)) }];
}

/** The concept of a tree's members, as far as it says one: its head, or where its relations begin or end. */
export async function kindOf(tree) {
  const { head, conditions } = split(tree);
  if (head.kind === "entity") return null;
  if (!isAnything(head)) return head;
  const link = conditions.find(({ kind }) => kind === "some");
  return link ? ((await endsOf(link.relation, link.inverse ? "range" : "domain"))[0] ?? null) : null;
}

/** The relations of a concept's members in both directions; without a concept, all of them. */
function linksOf(concept) {
  return once(`links ${concept?.iri}`, async () => {
    if (concept) return (await api.relations({ concept: concept.iri.replace(/[<>]/g, ""), limit: MANY })).relations;
    return (await allRelations()).relations.flatMap((each) => ["forward", "inverse"].map((direction) => ({ ...each, direction })));
  });
}

/** Conditions for a tree: relations that occur for its members, said of "it"; `add(condition, open)` takes one. */
export async function conditions(tree, text, add) {
  const links = await linksOf(await kindOf(tree));
  const options = (direction, words) =>
    links
      .filter((each) => each.direction === direction)
      .toSorted((one, other) => other.count - one.count)
      .map(({ iri, label, count }) => ({ label: words(label), count, role: "relation", chosen: () => add(some({ iri, label }, direction === "inverse")) }));
  return [
    { title: "What it does", options: options("forward", (label) => `${label} …`) },
    { title: "What is done to it", options: options("inverse", (label) => `… ${label} it`) },
    { title: "Found", options: await found(text, add) },
  ];
}

/** Questions about a tree's members: what leads to them, and where they lead; `wrap(tree)` takes one. */
export async function turns(tree, wrap) {
  if (tree.kind === "entity") return [{ title: tree.label, options: (await ways(tree)).map((way) => ({ ...way, role: "relation", chosen: () => wrap(way.tree) })) }];
  const links = await linksOf(await kindOf(tree));
  const options = (direction, words) =>
    links
      .filter((each) => each.direction === direction)
      .toSorted((one, other) => other.count - one.count)
      .map(({ iri, label, count }) => ({ label: words(label), count, role: "relation", chosen: () => wrap(some({ iri, label }, direction === "forward", tree)) }));
  return [
    { title: "What leads to them", options: options("inverse", (label) => `what ${label} them`) },
    { title: "Where they lead", options: options("forward", (label) => `their “${label}”`) },
  ];
}

/** What an entity can be asked about, by its most facts: `{label, count, tree}`, in the server's English. */
export async function ways(entity, most = 8) {
  const card = await api.entityCard(entity.iri, { limit: 1 });
  const value = { kind: "entity", iri: entity.iri, label: entity.label };
  const groups = ["outgoing", "incoming"].flatMap((side) =>
    card[side].map(({ relation, count }) => ({ count, tree: some(relation, side === "outgoing", value) })),
  );
  const best = groups.toSorted((one, other) => other.count - one.count).slice(0, most);
  const said = await Promise.all(best.map(({ tree }) => api.drawing(write(tree))));
  return best.map((way, row) => ({ ...way, label: said[row].english.replace(/^everything that /, "what ") }));
}
