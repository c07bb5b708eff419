/* JSON Schema as a form sees it: what kind of field each part is, and what it begins with.

   Forms cover what schemas of inputs and answers are made of: objects, texts, numbers, choices, lists, one of several kinds.
   Whatever else a schema says is left to the server, and the field is JSON. */

import type { Json, JsonMap } from "../api/types";
import { texts } from "../texts";
import { formatCount } from "../format";

export type FieldKind = "text" | "prose" | "moment" | "date" | "number" | "integer" | "truth" | "choice" | "tokens" | "list" | "group" | "oneOf" | "json";

export interface Field {
  kind: FieldKind;
  schema: JsonMap;
  label: string;
  help: string;
  isNullable: boolean;
  /** The fields of a group, the item of a list, or the kinds of one of several. */
  fields: Record<string, Field>;
  required: string[];
  item: Field | null;
  kinds: Field[];
  choices: Json[];
}

const MOST_DEEP = 6;

/** Read a schema as a field. `root` resolves its references. */
export function readField(schema: Json | undefined, name = "", root: Json | undefined = schema, depth = 0): Field {
  const { own, isNullable } = withoutNull(resolve(asMap(schema), asMap(root)), asMap(root));
  const field: Field = {
    kind: "json",
    schema: own,
    label: typeof own.title === "string" && depth > 0 && !isGenerated(own.title, name) ? own.title : name || String(own.title ?? ""),
    help: typeof own.description === "string" ? own.description : "",
    isNullable,
    fields: {},
    required: [],
    item: null,
    kinds: [],
    choices: [],
  };
  if (depth > MOST_DEEP) return field;
  if (Array.isArray(own.enum) || own.const !== undefined) return { ...field, kind: "choice", choices: Array.isArray(own.enum) ? own.enum : [own.const as Json] };
  const several = own.oneOf ?? own.anyOf;
  if (Array.isArray(several)) return { ...field, kind: "oneOf", kinds: several.map((each) => readField(each, name, root, depth + 1)) };
  switch (own.type) {
    case "string":
      return { ...field, kind: textKind(own) };
    case "integer":
      return { ...field, kind: "integer" };
    case "number":
      return { ...field, kind: "number" };
    case "boolean":
      return { ...field, kind: "truth" };
    case "array": {
      const item = readField(own.items, "", root, depth + 1);
      return { ...field, kind: item.kind === "text" ? "tokens" : item.kind === "group" ? "list" : "json", item };
    }
    default:
      return own.properties && typeof own.properties === "object" ? readGroup(field, own, root, depth) : field;
  }
}

function readGroup(field: Field, schema: JsonMap, root: Json | undefined, depth: number): Field {
  const fields = Object.fromEntries(Object.entries(asMap(schema.properties)).map(([name, inner]) => [name, readField(inner, name, root, depth + 1)]));
  const required = Array.isArray(schema.required) ? schema.required.filter((name): name is string => typeof name === "string") : [];
  return { ...field, kind: Object.keys(fields).length ? "group" : "json", fields, required };
}

function textKind(schema: JsonMap): FieldKind {
  if (schema.format === "date-time") return "moment";
  if (schema.format === "date") return "date";
  const isLong = schema.format === "textarea" || (typeof schema.maxLength === "number" && schema.maxLength > 200) || schema.contentMediaType === "text/markdown";
  return isLong ? "prose" : "text";
}

/** A title that was only made from the name says nothing: `Lead Email` for `lead_email`. */
function isGenerated(title: string, name: string): boolean {
  return title.toLowerCase().replaceAll(" ", "") === name.toLowerCase().replace(/[_\s-]/g, "");
}

function asMap(value: Json | undefined): JsonMap {
  return value && typeof value === "object" && !Array.isArray(value) ? value : {};
}

function resolve(schema: JsonMap, root: JsonMap, hops = 0): JsonMap {
  const reference = schema.$ref;
  if (typeof reference !== "string" || !reference.startsWith("#/") || hops > 10) {
    const [only] = Array.isArray(schema.allOf) && schema.allOf.length === 1 ? schema.allOf : [];
    return only ? { ...resolve(asMap(only), root, hops + 1), ...schema, allOf: [] } : schema;
  }
  const found = reference
    .slice(2)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce<JsonMap>((at, part) => asMap(at[part]), root);
  const { $ref: _, ...beside } = schema;
  return { ...resolve(found, root, hops + 1), ...beside };
}

/** `anyOf: [X, null]` and `type: [X, "null"]` are X, which may also be left empty. */
function withoutNull(schema: JsonMap, root: JsonMap): { own: JsonMap; isNullable: boolean } {
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return { own: { ...schema, type: types.length === 1 ? (types[0] as Json) : types }, isNullable: types.length < schema.type.length };
  }
  for (const name of ["anyOf", "oneOf"]) {
    const several = schema[name];
    if (!Array.isArray(several)) continue;
    const rest = several.filter((each) => asMap(each).type !== "null");
    if (rest.length === several.length) continue;
    const { [name]: _, ...beside } = schema;
    const own = rest.length === 1 ? { ...resolve(asMap(rest[0]), root), ...beside } : { ...beside, [name]: rest };
    return { own, isNullable: true };
  }
  return { own: schema, isNullable: false };
}

/** Return what a field begins with; undefined for one that is left out unless somebody fills it in. */
export function defaultOf(field: Field): Json | undefined {
  if (field.schema.default !== undefined) return field.schema.default;
  if (field.kind === "group") {
    const values = Object.entries(field.fields).map(([name, inner]) => [name, field.required.includes(name) || inner.schema.default !== undefined ? defaultOf(inner) : undefined] as const);
    return Object.fromEntries(values.filter((entry): entry is readonly [string, Json] => entry[1] !== undefined));
  }
  return field.choices.length === 1 && field.schema.const !== undefined ? field.choices[0] : undefined;
}

/** What a field allows, said before anything is wrong: `1 to 30`, `up to 3`, `optional`. */
export function constraintOf(field: Field, isRequired: boolean): string {
  const words = texts.form;
  const { minimum, maximum, maxItems, maxLength, minLength } = field.schema;
  const parts: string[] = [];
  if (typeof minimum === "number" && typeof maximum === "number") parts.push(words.between(minimum, maximum));
  else if (typeof minimum === "number") parts.push(words.from(minimum));
  else if (typeof maximum === "number") parts.push(words.upTo(maximum));
  if (typeof maxItems === "number") parts.push(words.upTo(maxItems));
  if (typeof maxLength === "number" && maxLength < 10_000) parts.push(`${typeof minLength === "number" && minLength > 1 ? `${formatCount(minLength)} to ` : "up to "}${formatCount(maxLength)} characters`);
  if (!isRequired) parts.push(words.optional);
  return parts.join(", ");
}
