// The page: its address is its state. ?q= is the question, ?entity= or ?concept= the answer that is open, ?min= the
// least degree of predictions; what stands behind #/ is a view beside the question.

import { AnswerList, MOST, STEP } from "./answers.js";
import * as api from "./api.js";
import { Builder } from "./builder.js";
import { Candidates } from "./candidates.js";
import { Classes } from "./classes.js";
import { Details } from "./details.js";
import { byId, counted, element, number } from "./dom.js";
import { Editor } from "./editor.js";
import { showNearest } from "./empty.js";
import { openExport } from "./export.js";
import { Meaning } from "./meaning.js";
import { questionCard, Questions } from "./questions.js";
import { write } from "./tree.js";
import { Trouble } from "./trouble.js";
import { Views } from "./views.js";

const FIRST = 15;
const DEEP = 500;
const SLOW = 150;
const KINDS = { entity: "entities", concept: "concepts" };

const shown = { query: undefined, min: api.MIN_DEGREE, answers: null, chosen: null, model: null, tree: null };
let pending = null;
let introduced = null;

const questions = new Questions();
const builder = new Builder({ built: (tree) => build(tree) });
const meaning = new Meaning({
  failed: (problem, text) => editor.text === text && trouble.hint(problem, text),
  read(tree) {
    shown.tree = tree;
    builder.show(tree);
  },
});
const editor = new Editor({
  changed(text) {
    trouble.clear();
    builder.wait();
    meaning.follow(text);
  },
  submitted: (text) => text.trim() && put(text.trim()),
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
  Object.keys(KINDS).map((level) => [
    level,
    new AnswerList(level, {
      chosen: ({ iri }) => go({ query: shown.query, chosen: { level, iri } }),
      more: (status) => grow(level, status),
    }),
  ]),
);
const views = new Views({
  questions,
  back() {
    entitle();
    if (document.activeElement === document.body) byId("query").focus();
  },
});

/** Everything again: the server is back, or has the key it wants. */
function retry() {
  trouble.clear();
  questions.title = introduced = introduce();
  if (address().query) arrive({ again: true });
}

/** The state that the address holds. */
function address() {
  const parameters = new URLSearchParams(location.search);
  const level = Object.keys(KINDS).find((name) => parameters.has(name));
  const min = Number(parameters.get("min") ?? api.MIN_DEGREE);
  return {
    query: parameters.get("q")?.trim() || null,
    chosen: level ? { level, iri: parameters.get(level) } : null,
    min: min >= 0 && min <= 1 ? min : api.MIN_DEGREE,
  };
}

/** Goes to a state: a new entry in the history, unless we are there. */
function go({ query, chosen, min = shown.min }) {
  const parameters = new URLSearchParams();
  if (query) parameters.set("q", query);
  if (query && chosen) parameters.set(chosen.level, chosen.iri);
  if (query && min !== api.MIN_DEGREE) parameters.set("min", min);
  const target = parameters.size ? `?${parameters}` : location.pathname;
  if (target !== location.search || location.hash) history.pushState(null, "", target);
  views.show();
  return arrive({ focus: true, again: !chosen && query === shown.query && shown.chosen === null });
}

/** Asks a text as it is said: one with full IRIs or in English gets its short form. */
async function put(text) {
  if (/<|^every/i.test(text) && !api.isSparql(text)) {
    try {
      return await go({ query: (await api.drawing(text)).canonical, chosen: null });
    } catch {
      // The answer says what is wrong.
    }
  }
  return go({ query: text, chosen: null });
}

/** A tree of the builder: asked at once. */
const build = (tree) => put(write(tree));

/** Makes the page what its address says. `again` asks even a question that is answered already. */
async function arrive({ focus = false, again = false } = {}) {
  const { query, chosen, min } = address();
  if (query !== shown.query || min !== shown.min || again) {
    shown.chosen = null;
    shown.min = min;
    editor.text = query ?? "";
    if (!query) return welcome();
    if (!(await ask(query))) return undefined; // the error is on the page
  }
  return choose(chosen, focus);
}

/** The window is called by its question, unless a view beside it is open. */
function entitle() {
  if (!views.open) document.title = shown.query ? `${shown.query} – tarbox` : "tarbox";
}

/** No question yet: an empty box and examples. */
function welcome() {
  pending?.abort();
  Object.assign(shown, { query: null, answers: null, tree: null });
  entitle();
  trouble.clear();
  meaning.follow("");
  begin(true);
  if (matchMedia("(pointer: fine)").matches && !views.open) editor.focus(); // on a phone the keyboard would cover the examples
}

/** Whether the page is at its beginning: no answers, but examples. */
function begin(yes) {
  byId("results").hidden = yes;
  byId("examples").hidden = !yes || !byId("examples").children.length;
  byId("lead").hidden = !yes;
  byId("asking").classList.toggle("asked", !yes);
}

/** Asks, and shows both lists. Says whether there are answers. */
async function ask(query) {
  pending?.abort();
  pending = new AbortController();
  const { signal } = pending;
  const slow = setTimeout(() => wait(), SLOW);
  trouble.clear();
  shown.query = query;
  entitle();
  byId("results").setAttribute("aria-busy", "true");
  byId("examples").hidden = true;
  const understood = meaning.show(query);
  try {
    [shown.answers] = await Promise.all([api.answer(query, FIRST, signal, shown.min), introduced]);
  } catch (problem) {
    if (problem.name === "AbortError") return false;
    shown.answers = null;
    begin(true);
    trouble.report(problem, query);
    return false;
  } finally {
    clearTimeout(slow);
    if (pending.signal === signal) byId("results").removeAttribute("aria-busy");
  }
  begin(false);
  present();
  if (api.isSparql(query)) await meaning.show(shown.answers.canonical);
  await understood;
  if (!signal.aborted) await showNearest(shown.answers, shown.tree, signal);
  return !signal.aborted;
}

/** The lists while the answers are on their way. */
function wait() {
  begin(false);
  byId("summary").textContent = "Looking for answers …";
  byId("empty").hidden = true;
  details.place(null);
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

function present() {
  const { canonical, english, entity_count, concept_count, milliseconds } = shown.answers;
  const found = `${spell("entities", "entity")} and ${spell("concepts", "concept")}`;
  byId("summary").textContent = `${found} in ${milliseconds < 10 ? milliseconds.toFixed(1) : number(Math.round(milliseconds))} ms`;
  byId("empty").hidden = true;
  byId("threshold").hidden = !shown.model;
  byId("min-degree").value = shown.min;
  byId("min-degree-shown").textContent = shown.min.toFixed(2);
  questions.asked(canonical, english);
  marked(questions.isSaved(canonical));
  classes.show(canonical);
  details.place(null);
  for (const [level, kind] of Object.entries(KINDS)) lists[level].show(shown.answers[kind], countsOf(kind), Boolean(shown.model));
  if (entity_count + concept_count) details.invite();
  else details.clear();
  say(`${found} answer the question`);
}

/** More of one group: they come at its end. */
async function grow(level, status) {
  const { query } = shown;
  const k = Math.min(lists[level].size(status) + STEP, MOST);
  const answers = await api.answer(query, k, pending.signal, shown.min).catch((problem) => trouble.report(problem, query));
  if (!answers || query !== shown.query) return;
  shown.answers = answers;
  lists[level].add(answers[KINDS[level]], countsOf(KINDS[level]), status);
  mark();
}

/** Opens the explanation of an answer, or closes it. */
async function choose(chosen, focus) {
  const before = shown.chosen;
  if (same(before, chosen)) return;
  shown.chosen = chosen;
  details.place(mark());
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
  const find = (answers) => answers[KINDS[level]].find((item) => item.iri === iri);
  const known = find(shown.answers);
  if (known || shown.answers[KINDS[level]].length === shown.answers[`${level}_count`]) return known;
  try {
    return find(await api.answer(shown.query, DEEP, pending.signal, shown.min));
  } catch {
    return undefined; // the explanation does without its row
  }
}

const same = (one, other) => one?.iri === other?.iri && one?.level === other?.level;

/** Marks the answer that is open; gives its row. */
function mark() {
  const rows = Object.entries(lists).map(([level, list]) => list.select(shown.chosen?.level === level ? shown.chosen.iri : null));
  return rows.find(Boolean);
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

function marked(saved) {
  byId("save").setAttribute("aria-pressed", String(saved));
  byId("save").textContent = saved ? "Saved" : "Save";
}

document.addEventListener("facts", ({ detail: { version, built } }) => {
  const when = built ? ` of ${built.replace("T", " ").replace("Z", " UTC")}` : "";
  byId("facts").textContent = `Facts${when} · version ${version.slice(0, 12)}`;
  byId("facts").title = version;
});

async function introduce() {
  try {
    const { title, model, trained_on, counts, relations, examples } = await api.knowledgeBase();
    shown.model = model;
    byId("kb-title").textContent = title;
    const kinds = ["entities", "concepts", "relations"].filter((kind) => counts[kind] !== undefined);
    const facts = kinds.map((kind) => `${number(counts[kind])} ${kind}`);
    const learnt = trained_on ? `predictions by ${model}, trained on ${trained_on}` : `predictions by ${model}`;
    byId("counts").textContent = [title, ...facts, ...(model ? [learnt] : [])].join(" · ");
    byId("examples").replaceChildren(...topics(examples));
    candidates.offer(model ? relations : []);
    if (shown.query === null) begin(true);
    return title;
  } catch (problem) {
    if (!address().query) trouble.report(problem, "");
    return "";
  }
}

/** Examples by what they show, from simple to hard. */
function topics(examples) {
  const kinds = [
    ["One step", ({ query }) => !/\b(and|or|not)\b/.test(query) && query.split(/\b(?:some|value)\b/).length < 3],
    ["Several steps", ({ query }) => !/\b(and|or|not)\b/.test(query)],
    ["Several conditions", ({ query }) => !/\b(or|not)\b/.test(query)],
    ["Alternatives and exceptions", () => true],
  ];
  const topic = (example) => kinds.find(([, fits]) => fits(example))[0];
  return kinds
    .map(([title]) => [title, examples.filter((example) => topic(example) === title)])
    .filter(([, those]) => those.length)
    .map(([title, those]) => element("div", {}, element("h2", {}, title), element("ul", { class: "cards" }, those.map(questionCard))));
}

/** Links to questions stay on the page. */
function followed(event) {
  const link = event.target.closest("a[href^='?']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const query = new URLSearchParams(link.getAttribute("href")).get("q");
  if (query) put(query);
  else go({ query: null, chosen: null });
}

addEventListener("popstate", () => {
  views.show();
  arrive();
});
document.addEventListener("click", followed);
byId("share").addEventListener("click", share);
byId("save").addEventListener("click", () => marked(questions.toggle(shown.answers.canonical, shown.answers.english)));
byId("export").addEventListener("click", () => openExport(byId("export"), shown));
byId("min-degree").addEventListener("input", ({ target }) => (byId("min-degree-shown").textContent = Number(target.value).toFixed(2)));
byId("min-degree").addEventListener("change", ({ target }) => go({ query: shown.query, chosen: null, min: Number(target.value) }));
questions.title = introduced = introduce();
views.show();
arrive();
