// Questions as trees, as the server's /api/drawing gives them, and their text. Every IRI is written in full: the server
// gives the short text back.

export const ANYTHING = { kind: "concept", iri: "<http://www.w3.org/2002/07/owl#Thing>", label: "anything" };

export const isAnything = (node) => node.kind === "concept" && /[#/](Anything|Thing)>$/.test(node.iri);

const isLeaf = (node) => node.kind === "concept" || node.kind === "entity";

export const some = (relation, inverse, operand = ANYTHING) => ({ kind: "some", relation, inverse, operand });

/** The text of a tree in Manchester syntax. */
export function write(node) {
  const inner = (child) => (child.kind === "concept" ? write(child) : `(${write(child)})`);
  if (node.kind === "concept") return node.iri;
  if (node.kind === "entity") return `{${node.iri}}`;
  if (node.kind === "text") return node.text;
  if (node.kind === "not") return `not ${inner(node.operand)}`;
  if (node.kind === "some") {
    const relation = `${node.inverse ? "inverse " : ""}${node.relation.iri}`;
    return node.operand.kind === "entity" ? `${relation} value ${node.operand.iri}` : `${relation} some ${inner(node.operand)}`;
  }
  return node.operands.map(inner).join(` ${node.kind} `);
}

/** A tree as one says it: a `head`, which is a concept or an entity, and the `conditions` on it. */
export function split(node) {
  if (isLeaf(node)) return { head: node, conditions: [] };
  if (node.kind !== "and") return { head: ANYTHING, conditions: [node] };
  const head = node.operands.find(isLeaf);
  return { head: head ?? ANYTHING, conditions: node.operands.filter((each) => each !== head) };
}

/** The tree of a head and conditions. */
export function join(head, conditions) {
  const parts = isAnything(head) && conditions.length ? conditions : [head, ...conditions];
  return parts.length === 1 ? parts[0] : { kind: "and", operands: parts };
}

/**
 * The questions that are nearest to a tree and ask for less: `tree` is one without the part `without`, or with anything
 * in its place.
 */
export function relax(node) {
  const found = [];
  const visit = (part, put) => {
    if (part.kind === "and") {
      const { head, conditions } = split(part);
      conditions.forEach((without, place) => found.push({ tree: put(join(head, conditions.toSpliced(place, 1))), without }));
      if (!isAnything(head)) found.push({ tree: put(join(ANYTHING, conditions)), without: head });
      part.operands.forEach((each, place) => visit(each, (changed) => put({ ...part, operands: part.operands.with(place, changed) })));
    }
    if (part.kind === "some" && !isAnything(part.operand)) {
      visit(part.operand, (changed) => put({ ...part, operand: changed }));
      found.push({ tree: put({ ...part, operand: ANYTHING }), without: part.operand });
    }
  };
  visit(node, (changed) => changed);
  return found;
}
