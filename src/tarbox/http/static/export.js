// Answers as files, and the question as a program asks it.

import { MOST } from "./answers.js";
import { answer } from "./api.js";
import { element } from "./dom.js";
import { openMenu } from "./menu.js";

const PREFIX = "urn:tarbox:answer:";

const cell = (value) => (/[",\n\r]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));

const rowsOf = ({ entities, concepts }) => [
  ...entities.map((each) => ({ level: "entity", ...each })),
  ...concepts.map((each) => ({ level: "concept", ...each })),
];

export function toCsv(answers) {
  const columns = ["level", "iri", "label", "status", "degree", "coverage", "specificity"];
  const lines = rowsOf(answers).map((row) => columns.map((column) => cell(row[column] ?? "")).join(","));
  return [columns.join(","), ...lines, ""].join("\r\n");
}

/** Labels and degrees; each answer is one of the question, which has its text as label. */
export function toTurtle(answers) {
  const quoted = (text) => `"${text.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n").replaceAll("\r", "\\r")}"`;
  const lines = rowsOf(answers)
    .filter(({ iri }) => iri.startsWith("<"))
    .map(({ iri, label, level, status, degree }) =>
      `${iri} rdfs:label ${quoted(label)} ; a :${status[0].toUpperCase()}${status.slice(1)}${level === "entity" ? "Entity" : "Concept"} ; :degree ${degree} .`);
  return [`@prefix : <${PREFIX}> .`, "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .", `:question rdfs:label ${quoted(answers.canonical)} .`, ...lines, ""].join("\n");
}

const FORMATS = {
  CSV: ["csv", "text/csv", toCsv],
  JSON: ["json", "application/json", (answers) => JSON.stringify(answers, null, 2)],
  Turtle: ["ttl", "text/turtle", toTurtle],
};

/** Saves all answers, as far as the server gives them at once. */
async function save(format, query, minDegree) {
  const [suffix, type, write] = FORMATS[format];
  const answers = await answer(query, MOST, undefined, minDegree);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([write(answers)], { type }));
  link.download = `answers.${suffix}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const shell = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** The question as programs ask it. */
const PROGRAMS = {
  curl: (query) => `curl -G ${new URL("api/answer", document.baseURI)} --data-urlencode ${shell(`query=${query}`)}`,
  Python: (query, model) => {
    const kind = model ? "Reasoner" : "KnowledgeBase";
    return `import tarbox\n\nanswers = tarbox.${kind}.load("${model ? "RUN" : "KB"}").answer(${JSON.stringify(query)})\nfor entity in answers.entities:\n    print(entity.label, entity.degree, entity.status)`;
  },
};

/** The menu: files, and programs. */
export function openExport(anchor, { query, min, model, answers }) {
  const files = Object.keys(FORMATS).map((format) => ({ label: format, role: "keyword", chosen: () => save(format, query, min) }));
  const programs = Object.entries(PROGRAMS).map(([name, text]) => ({ label: `as ${name}`, role: "keyword", chosen: () => showProgram(name, text(answers.canonical, model)) }));
  const load = async () => [{ title: "All answers as a file", options: files }, { title: "The question", options: programs }];
  openMenu(anchor, { label: "Export", load, placeholder: null });
}

function showProgram(name, text) {
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  };
  const button = element("button", { type: "button", class: "quiet", onclick: copy }, "Copy");
  const close = element("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close");
  const dialog = element("dialog", { class: "program", "aria-label": `The question as ${name}`, onclose: () => dialog.remove() }, element("pre", { tabindex: "0" }, text), element("p", {}, button, " ", close));
  document.body.append(dialog);
  dialog.showModal();
}
