// A question without answers: which part leaves none, and the nearest questions that have some.

import { answer, drawing } from "./api.js";
import { byId, counted, element } from "./dom.js";
import { questionCard } from "./questions.js";
import { relax, write } from "./tree.js";

const TRIED = 12;
const SHOWN = 3;

/** Fills the section for a question without known answers, or hides it. */
export async function showNearest(answers, tree, signal) {
  const section = byId("empty");
  section.hidden = true;
  if (!tree || answers.known_count) return;
  const tried = await Promise.all(
    relax(tree)
      .slice(0, TRIED)
      .map(async (each) => ({ ...each, reply: await answer(write(each.tree), 1, signal).catch(() => null) })),
  );
  const found = tried.filter(({ reply }) => reply?.known_count).toSorted((one, other) => one.reply.known_count - other.reply.known_count);
  const blamed = await Promise.all(found.slice(0, SHOWN).map(({ without }) => drawing(write(without), signal).catch(() => null)));
  if (signal.aborted) return;
  const culprits = [...new Set(blamed.filter(Boolean).map(({ english }) => `“${english}”`))];
  section.replaceChildren(
    element("h2", {}, "Nothing that is known answers this"),
    element("p", {}, culprits.length ? `What leaves nothing: ${culprits.join(", or ")}. Without that there are answers.` : "No question that asks for one thing less has answers either."),
    element("ul", { class: "cards" }, found.slice(0, SHOWN).map(({ reply }) => questionCard({ query: reply.canonical, english: reply.english, entity_count: counted(reply.known_count, "known answer") }))),
  );
  section.hidden = false;
}
