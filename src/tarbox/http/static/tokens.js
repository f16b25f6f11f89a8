// The words of Manchester syntax, as far as colouring and completion need them; the server has the real parser.

const WORD = String.raw`[^\s(){}\[\],<>"'?][^\s(){}\[\],<>"]*`;
const TOKEN = new RegExp(
  [
    String.raw`(?<iri><[^<>\s]*>?)`,
    String.raw`(?<label>'(?:[^'\\]|\\.)*'?)`,
    String.raw`(?<literal>"(?:[^"\\]|\\.)*"?(?:@[A-Za-z-]+|\^\^\S+)?)`,
    String.raw`(?<mark>[(){}\[\],])`,
    `(?<word>${WORD})`,
    String.raw`(?<space>\s+)`,
    String.raw`(?<other>[^])`,
  ].join("|"),
  "gy",
);
const KEYWORDS = new Set(["and", "or", "not", "that", "some", "value", "inverse", "only", "min", "max", "exactly", "self"]);

/** The text cut into tokens {kind, text, start, end} without gaps. */
export function tokenise(text) {
  return Array.from(text.matchAll(TOKEN), (match) => {
    const [kind] = Object.entries(match.groups).find(([, found]) => found !== undefined);
    const keyword = kind === "word" && KEYWORDS.has(match[0].toLowerCase());
    return { kind: keyword ? "keyword" : kind, text: match[0], start: match.index, end: match.index + match[0].length };
  });
}

/** What can stand at a place: names of these roles, and these keywords. */
const OFFERS = {
  operand: { roles: ["concept", "relation"], keywords: ["not", "inverse"] },
  relation: { roles: ["relation"], keywords: [] },
  restriction: { roles: [], keywords: ["some", "value"] },
  afterName: { roles: [], keywords: ["some", "value", "and", "or"] },
  entity: { roles: ["entity"], keywords: [] },
  listed: { roles: [], keywords: [] },
  next: { roles: [], keywords: ["and", "or"] },
};
const AFTER_KEYWORD = { inverse: "relation", value: "entity" };
const AFTER_NAME = { operand: "afterName", relation: "restriction", entity: "next" };

/** The place after these tokens, as a key of OFFERS. */
function place(tokens) {
  let here = "operand";
  let braces = false;
  for (const { kind, text } of tokens) {
    if (kind === "space") continue;
    if (kind === "keyword" && here !== "entity") here = AFTER_KEYWORD[text.toLowerCase()] ?? "operand";
    else if (text === "{") [braces, here] = [true, "entity"];
    else if (text === "}") [braces, here] = [false, "next"];
    else if (text === ",") here = braces ? "entity" : here;
    else if (text === "(") here = here === "relation" ? "relation" : "operand";
    else if (text === ")") here = here === "restriction" ? "restriction" : "next";
    else here = braces ? "listed" : (AFTER_NAME[here] ?? here);
  }
  return here;
}

/**
 * What the caret is about to name: the `prefix` typed so far, the range [start, end) that a choice replaces, and what
 * can stand there.
 */
export function context(text, caret) {
  const tokens = tokenise(text);
  const current = tokens.find((token) => token.start < caret && caret <= token.end && isName(token, caret));
  const start = current?.start ?? caret;
  const before = tokens.filter((token) => token.end <= start);
  const typed = text.slice(start, caret);
  return { start, end: current?.end ?? caret, prefix: typed.replace(/^'/, ""), ...OFFERS[place(before)] };
}

/** Whether the caret stands in a token that can become a name; behind a closed quote nothing is left to complete. */
function isName(token, caret) {
  if (token.kind === "label") return caret < token.end || !/^'(?:[^'\\]|\\.)*'$/.test(token.text);
  return token.kind === "word" || token.kind === "keyword";
}

/** Where the token at a position ends: what an error underlines. */
export function tokenEnd(text, position) {
  return tokenise(text).find((token) => token.start <= position && position < token.end)?.end ?? position;
}
