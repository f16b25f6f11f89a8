// The server's routes. Every failure is a `Problem`, whatever went wrong.

/** What went wrong, in words for the person at the page; `position` and `candidates` where a query is at fault. */
export class Problem extends Error {
  constructor(message, body = {}, status = 0) {
    super(message);
    this.status = status;
    this.position = Number.isInteger(body.position) ? body.position : null;
    this.candidates = Array.isArray(body.candidates) ? body.candidates : [];
    /** Whether the same request can succeed later: the server is away or busy. */
    this.passing = status === 0 || status === 429 || status >= 500;
  }
}

const KEY = "tarbox-api-key";

/** Keeps the key that the server wants, for this tab. */
export const useKey = (key) => sessionStorage.setItem(KEY, key);

function headers() {
  const key = sessionStorage.getItem(KEY);
  return { Accept: "application/json", ...(key ? { "X-API-Key": key } : {}) };
}

let facts = "";

/** Tells the page which facts a reply is of, when these are others than before: a server may read them anew. */
function noteFacts(reply) {
  const version = reply.headers.get("X-Facts-Version") ?? "";
  if (!version || version === facts) return;
  facts = version;
  document.dispatchEvent(new CustomEvent("facts", { detail: { version, built: reply.headers.get("X-Facts-Built") ?? "" } }));
}

async function request(path, parameters, options = {}) {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  let reply;
  try {
    reply = await fetch(url, { ...options, headers: { ...headers(), ...options.headers } });
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Problem("The server does not answer. Is tarbox serve still running?");
  }
  noteFacts(reply);
  let body = {};
  try {
    body = await reply.json();
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    if (reply.ok) throw new Problem("The server's reply cannot be read.", {}, reply.status);
  }
  if (!reply.ok) {
    throw new Problem(body.reason || body.detail || body.title || `The server says ${reply.status}.`, body, reply.status);
  }
  return body;
}

/** Whether a text is SPARQL: what follows its first word can follow no name in a class expression. */
export const isSparql = (text) =>
  /^(\s|#.*\n)*(prefix\s+[^\s:]*:|base\s*<|(select|ask|construct|describe)\s*([?$*{(<]|(distinct|reduced|where)\b))/i.test(text);

/** The least degree of a prediction that is listed, unless another is asked for. */
export const MIN_DEGREE = 0.1;

export const answer = (query, k, signal, minDegree = MIN_DEGREE) =>
  request("api/answer", {}, {
    method: "POST",
    signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ query, language: isSparql(query) ? "sparql" : "manchester", k, min_degree: minDegree }),
  });

export const explain = (query, iri, level, signal) => request("api/explain", { query, answer: iri, level }, { signal });

export const drawing = (query, signal) => request("api/drawing", { query }, { signal });

export const complete = (prefix, role, limit, signal) => request("api/complete", { prefix, role, limit }, { signal });

export const knowledgeBase = () => request("api/kb", {});

export const candidates = (relation, within, limit, offset) =>
  request("api/candidates", { relation, limit, offset, ...(within ? { for: within } : {}) });

export const classDescription = (expression) => request("api/concept", { expression });

export const concept = (iri, signal) => request(`api/concepts/${encodeURIComponent(iri)}`, {}, { signal });

/** An IRI in N-Triples form as a segment of a path. */
const segment = (iri) => encodeURIComponent(iri.replace(/^<(.*)>$/, "$1"));

export const search = (q, limit, signal) => request("api/search", { q, limit }, { signal });

export const entityCard = (iri, page = {}) => request(`api/entities/${segment(iri)}`, page);

/** Concepts below a parent, or the roots; or all, page by page. */
export const concepts = (parameters) => request("api/concepts", parameters);

/** Relations with domain, range and counts; those that occur for a concept's instances, with their direction. */
export const relations = (parameters) => request("api/relations", parameters);

export const description = () => request("openapi.json", {});

export const relationCard = (iri) => request(`api/relations/${segment(iri)}`, {});

/** How many facts of a relation each thing at its end (or, inverse, at its beginning) has: IRI to number, the most first. */
export async function factCounts(relation, inverse, limit) {
  const pattern = inverse ? `?x ${relation} ?y` : `?y ${relation} ?x`;
  const query = `SELECT ?x (COUNT(*) AS ?n) { ${pattern} } GROUP BY ?x ORDER BY DESC(?n) LIMIT ${limit}`;
  const { results } = await request("sparql", { query });
  return new Map(results.bindings.filter(({ x }) => x.type === "uri").map(({ x, n }) => [`<${x.value}>`, Number(n.value)]));
}
