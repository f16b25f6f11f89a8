// The page: its address is its state. ?q= is the question, ?entity= or ?concept= the answer that is open.

import { AnswerList, STEP } from "./answers.js";
import * as api from "./api.js";
import { Candidates } from "./candidates.js";
import { Classes } from "./classes.js";
import { Details } from "./details.js";
import { byId, counted, element, number } from "./dom.js";
import { Editor } from "./editor.js";
import { Meaning } from "./meaning.js";
import { Trouble } from "./trouble.js";

const FIRST = 10;
const DEEP = 500;
const SLOW = 150;

const shown = { query: undefined, answers: null, k: FIRST, chosen: null, model: null };
let pending = null;
let introduced = null;

const meaning = new Meaning({ failed: (problem, text) => editor.text === text && trouble.hint(problem, text) });
const editor = new Editor({
  changed(text) {
    trouble.clear();
    meaning.follow(text);
  },
  submitted: (text) => text.trim() && go({ query: text.trim(), chosen: null }),
});
const trouble = new Trouble({ editor, retry });
const details = new Details({
  opened: (level, iri) => go({ query: shown.query, chosen: { level, iri } }),
  asked: (query) => go({ query, chosen: null }),
  closed: () => go({ query: shown.query, chosen: null }),
});
const classes = new Classes({ asked: (query) => go({ query, chosen: null }) });
const candidates = new Candidates();
const lists = Object.fromEntries(
  ["entity", "concept"].map((level) => [
    level,
    new AnswerList(level, {
      chosen: ({ iri }) => go({ query: shown.query, chosen: { level, iri } }),
      more: () => ask(shown.query, Math.min(shown.k + STEP, DEEP * 2), level),
    }),
  ]),
);

/** Everything again: the server is back, or has the key it wants. */
function retry() {
  trouble.clear();
  introduced = introduce();
  if (address().query) arrive({ again: true });
}

/** The state that the address holds. */
function address() {
  const parameters = new URLSearchParams(location.search);
  const level = ["entity", "concept"].find((name) => parameters.has(name));
  return {
    query: parameters.get("q")?.trim() || null,
    chosen: level ? { level, iri: parameters.get(level) } : null,
  };
}

/** Goes to a state: a new entry in the history, unless we are there. */
function go({ query, chosen }) {
  const parameters = new URLSearchParams();
  if (query) parameters.set("q", query);
  if (query && chosen) parameters.set(chosen.level, chosen.iri);
  const target = parameters.size ? `?${parameters}` : location.pathname;
  if (target !== location.search) history.pushState(null, "", target);
  return arrive({ focus: true, again: !chosen && query === shown.query && shown.chosen === null });
}

/** Makes the page what its address says. `again` asks even a question that is answered already. */
async function arrive({ focus = false, again = false } = {}) {
  const { query, chosen } = address();
  if (query !== shown.query || again) {
    shown.chosen = null;
    editor.text = query ?? "";
    if (!query) return welcome();
    if (!(await ask(query, FIRST))) return undefined; // the error is on the page
  }
  return choose(chosen, focus);
}

/** No question yet: an empty box and examples. */
function welcome() {
  pending?.abort();
  Object.assign(shown, { query: null, answers: null });
  document.title = "tarbox";
  trouble.clear();
  meaning.follow("");
  byId("results").hidden = true;
  byId("examples").open = true;
  byId("lead").hidden = false;
  if (matchMedia("(pointer: fine)").matches) editor.focus(); // on a phone the keyboard would cover the examples
}

/** Asks, and shows both lists; `grown` is the list that gets longer. Says whether there are answers. */
async function ask(query, k, grown = null) {
  pending?.abort();
  pending = new AbortController();
  const { signal } = pending;
  const before = shown.answers;
  const slow = setTimeout(() => wait(), grown ? 60_000 : SLOW);
  document.title = `${query} – tarbox`;
  trouble.clear();
  Object.assign(shown, { query, k });
  byId("results").setAttribute("aria-busy", "true");
  byId("examples").open = false;
  byId("lead").hidden = true;
  if (!grown) meaning.show(query);
  try {
    [shown.answers] = await Promise.all([api.answer(query, k, signal), introduced]);
  } catch (problem) {
    if (problem.name === "AbortError") return false;
    shown.answers = null;
    byId("results").hidden = true;
    byId("examples").open = true;
    trouble.report(problem, query);
    return false;
  } finally {
    clearTimeout(slow);
    if (pending.signal === signal) byId("results").removeAttribute("aria-busy");
  }
  present(grown, before);
  return true;
}

/** The lists while the answers are on their way. */
function wait() {
  byId("results").hidden = false;
  byId("summary").textContent = "Looking for answers …";
  Object.values(lists).forEach((list) => list.wait());
  details.clear();
  say("Looking for answers");
}

/** The counts of one kind, `entities` or `concepts`. */
const countsOf = (kind) =>
  Object.fromEntries(["known", "predicted", "less_likely"].map((part) => [part, shown.answers.counts[part][kind]]));

/** How many answers of a kind there are, in words. */
function spell(kind, one) {
  const { known, predicted } = countsOf(kind);
  const certain = shown.model ? counted(known, `known ${one}`, `known ${kind}`) : counted(known, one, kind);
  return predicted ? `${certain} (${number(predicted)} predicted)` : certain;
}

/** The first answer of a list that was not there before. */
const firstNew = (kind, before) => {
  const old = new Set(before?.[kind].map(({ iri }) => iri));
  return shown.answers[kind].find(({ iri }) => !old.has(iri))?.iri;
};

function present(grown, before) {
  const { query, canonical, entity_count, concept_count, milliseconds } = shown.answers;
  const found = `${spell("entities", "entity")} and ${spell("concepts", "concept")}`;
  byId("results").hidden = false;
  byId("summary").textContent = `${found} in ${milliseconds < 10 ? milliseconds.toFixed(1) : number(Math.round(milliseconds))} ms`;
  if (api.isSparql(query)) meaning.show(canonical);
  classes.show(canonical);
  for (const [level, kind] of [["entity", "entities"], ["concept", "concepts"]]) {
    const focus = grown === level ? firstNew(kind, before) : null;
    lists[level].show(shown.answers[kind], countsOf(kind), Boolean(shown.model), focus);
  }
  if (!grown) {
    if (entity_count + concept_count) details.invite();
    else details.clear();
  } else mark();
  say(`${found} answer the question`);
}

/** Opens the explanation of an answer, or closes it. */
async function choose(chosen, focus) {
  const before = shown.chosen;
  if (same(before, chosen)) return;
  shown.chosen = chosen;
  mark();
  if (!chosen) {
    details.invite();
    if (before && focus && !lists[before.level].focus(before.iri)) editor.focus();
    return;
  }
  const { answers } = shown;
  const item = await row(chosen);
  if (!same(shown.chosen, chosen)) return;
  const opening = details.open(chosen.level, chosen.iri, answers.canonical, item);
  if (focus) details.focus();
  await opening;
  if (same(shown.chosen, chosen)) say(`Explanation of ${item?.label ?? "the concept"} shown`);
  if (focus) details.focus();
}

/** The row of an answer, also of one that the lists do not show yet. */
async function row({ level, iri }) {
  const key = level === "entity" ? "entities" : "concepts";
  const find = (answers) => answers[key].find((item) => item.iri === iri);
  const known = find(shown.answers);
  if (known || shown.answers[key].length === shown.answers[`${level}_count`]) return known;
  try {
    return find(await api.answer(shown.query, DEEP, pending.signal));
  } catch {
    return undefined; // the explanation does without its row
  }
}

const same = (one, other) => one?.iri === other?.iri && one?.level === other?.level;

function mark() {
  for (const [level, list] of Object.entries(lists)) list.select(shown.chosen?.level === level ? shown.chosen.iri : null);
}

/** Tells screen readers. */
function say(words) {
  byId("status").textContent = words;
}

async function share() {
  const button = byId("share");
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Link copied";
    say("Link copied");
  } catch {
    button.textContent = "Copy it from the address bar";
  }
  setTimeout(() => (button.textContent = "Copy link"), 2000);
}

async function introduce() {
  try {
    const { title, model, trained_on, counts, relations, examples } = await api.knowledgeBase();
    shown.model = model;
    byId("kb-title").textContent = title;
    const kinds = ["entities", "concepts", "relations"].filter((kind) => counts[kind] !== undefined);
    const facts = kinds.map((kind) => `${number(counts[kind])} ${kind}`);
    const learnt = trained_on ? `predictions by ${model}, trained on ${trained_on}` : `predictions by ${model}`;
    byId("counts").textContent = [...facts, ...(model ? [learnt] : [])].join(" · ");
    candidates.offer(model ? relations : []);
    byId("examples").hidden = !examples.length;
    byId("example-list").replaceChildren(...examples.map(exampleButton));
  } catch (problem) {
    if (!address().query) trouble.report(problem, "");
  }
}

function exampleButton({ query, english }) {
  const ask = () => go({ query, chosen: null });
  return element(
    "li",
    {},
    element("button", { type: "button", onclick: ask }, element("span", { class: "english" }, english), element("code", {}, query)),
  );
}

addEventListener("popstate", () => arrive());
byId("share").addEventListener("click", share);
byId("home").addEventListener("click", (event) => {
  event.preventDefault();
  go({ query: null, chosen: null });
});
introduced = introduce();
arrive();
