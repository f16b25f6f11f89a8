// The API as its own description tells it: one section for each operation.

import { description } from "./api.js";
import { element } from "./dom.js";

/** What a type is called: its name, or what it is a list of. */
function typeName({ $ref: at, type, items, anyOf, enum: values, const: only }) {
  if (at) return at.split("/").at(-1);
  if (anyOf) return anyOf.map(typeName).join(" or ");
  if (values) return values.map((value) => JSON.stringify(value)).join(" | ");
  if (only !== undefined) return JSON.stringify(only);
  return type === "array" ? `list of ${typeName(items ?? {})}` : (type ?? "anything");
}

const table = (heads, rows) =>
  element("div", { class: "table", tabindex: "0", role: "region", "aria-label": heads[0] }, element(
    "table",
    {},
    element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col" }, head)))),
    element("tbody", {}, rows.map(([first, ...rest]) => element("tr", {}, element("th", { scope: "row" }, first), rest.map((cell) => element("td", {}, cell))))),
  ));

const code = (text) => element("code", {}, text);

function operation(method, path, { summary, description: told, parameters = [], requestBody, responses }) {
  const rows = parameters.map(({ name, required, schema, description: meaning }) => [
    code(name),
    typeName(schema ?? {}),
    [meaning ?? "", required ? "Required." : schema?.default === undefined ? "" : `Unless given: ${JSON.stringify(schema.default)}.`].join(" "),
  ]);
  const body = Object.values(requestBody?.content ?? {})[0]?.schema;
  const good = Object.entries(responses).filter(([status]) => status < "400");
  const replies = good.flatMap(([status, { content = {} }]) => Object.entries(content).map(([media, { schema }]) => `${status}: ${media}${schema ? `, ${typeName(schema)}` : ""}`));
  return element(
    "details",
    { class: "operation" },
    element("summary", {}, element("b", {}, method.toUpperCase()), " ", code(path), element("span", { class: "rest" }, told?.split("\n")[0] ?? summary ?? "")),
    rows.length ? table(["parameter", "type", "meaning"], rows) : null,
    body ? element("p", {}, "Body: ", code(typeName(body))) : null,
    element("p", { class: "rest" }, `Replies: ${replies.join("; ") || "text"}. Errors: ${Object.keys(responses).filter((status) => status >= "400").join(", ")}.`),
  );
}

function type(name, { description: told, properties = {}, enum: values }) {
  const rows = Object.entries(properties).map(([key, schema]) => [code(key), typeName(schema), schema.description ?? ""]);
  return element(
    "details",
    { class: "operation" },
    element("summary", {}, code(name), element("span", { class: "rest" }, told?.split("\n")[0] ?? "")),
    told ? element("p", {}, told) : null,
    values ? element("p", {}, values.join(", ")) : null,
    rows.length ? table(["field", "type", "meaning"], rows) : null,
  );
}

export async function referenceView() {
  const { info, paths, components } = await description();
  const operations = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, each]) => operation(method, path, each)));
  const view = element(
    "div",
    {},
    element("h1", { tabindex: "-1" }, "API"),
    element("p", { class: "lead" }, info.description.replaceAll("`", ""), " ", element("a", { href: "openapi.json" }, "openapi.json")),
    element("h2", {}, "Operations"),
    operations,
    element("h2", {}, "Types"),
    Object.entries(components?.schemas ?? {}).map(([name, each]) => type(name, each)),
  );
  return { view, label: "API" };
}
