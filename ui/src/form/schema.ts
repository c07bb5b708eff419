/* JSON Schema as a form sees it: what kind of field each part is, and what it begins with.

   Forms cover what the schemas of inputs and answers are made of: objects, texts, numbers, dates, choices, lists, maps,
   constants, one of several kinds. Whatever else a schema says is left to the server, and the field is JSON. */

import type { Json, JsonMap } from "../api/types";
import { texts } from "../texts";
import { formatCount } from "../format";
import { asMap } from "../json";

export type FieldKind =
  | "text" | "prose" | "moment" | "date" | "time"
  | "number" | "integer" | "truth"
  | "choice" | "several" | "constant"
  | "tokens" | "list" | "tuple" | "map" | "group" | "oneOf" | "json";

export interface Field {
  kind: FieldKind;
  schema: JsonMap;
  label: string;
  help: string;
  isNullable: boolean;
  /** The fields of a group by name; those of a tuple by position. */
  fields: Record<string, Field>;
  required: string[];
  /** The item of a list, or the value of a map. */
  item: Field | null;
  /** The kinds of one of several. */
  kinds: Field[];
  choices: Json[];
}

const MOST_DEEP = 8;
const MOST_REPEATED = 2; // a schema that refers to itself goes on as JSON below this

interface Place {
  name: string;
  root: JsonMap;
  depth: number;
  references: string[];
}

/** Read a schema as a field. `root` resolves its references. */
export function readField(schema: Json | undefined, name = "", root: Json | undefined = schema): Field {
  return read(asMap(schema), { name, root: asMap(root), depth: 0, references: [] });
}

function read(schema: JsonMap, place: Place): Field {
  const references = [...place.references];
  const { own, isNullable } = withoutNull(resolve(schema, place.root, references), place.root, references);
  const title = typeof own.title === "string" ? own.title : "";
  // The title of a class that is referred to names the class, not the field.
  const named = place.name && typeof schema.title !== "string" ? "" : title;
  const field: Field = {
    kind: "json",
    schema: own,
    label: named && place.depth > 0 && !isGenerated(named, place.name) ? named : place.name || title,
    help: typeof own.description === "string" ? own.description : "",
    isNullable,
    fields: {},
    required: [],
    item: null,
    kinds: [],
    choices: [],
  };
  const isEndless = references.some((name) => references.filter((other) => other === name).length > MOST_REPEATED);
  if (place.depth > MOST_DEEP || isEndless) return field;
  const inner = (part: Json | undefined, name = ""): Field => read(asMap(part), { name, root: place.root, depth: place.depth + 1, references });
  if (own.const !== undefined) return { ...field, kind: "constant", choices: [own.const] };
  if (Array.isArray(own.enum)) return own.enum.length === 1 ? { ...field, kind: "constant", choices: own.enum } : { ...field, kind: "choice", choices: own.enum };
  const several = own.oneOf ?? own.anyOf;
  if (Array.isArray(several)) return oneOf(field, several.map((each) => inner({ ...withoutKinds(own), ...asMap(each) }, place.name)));
  if (Array.isArray(own.type)) return { ...field, kind: "oneOf", kinds: own.type.map((type) => inner({ ...own, type }, place.name)) };
  switch (own.type) {
    case "string":
      return { ...field, kind: textKind(own) };
    case "integer":
      return { ...field, kind: "integer" };
    case "number":
      return { ...field, kind: "number" };
    case "boolean":
      return { ...field, kind: "truth" };
    case "array":
      return readArray(field, own, inner);
    default:
      return own.type === undefined || own.type === "object" ? readObject(field, own, inner) : field;
  }
}

/** Constants of one kind each are choices. */
function oneOf(field: Field, kinds: Field[]): Field {
  if (kinds.length > 1 && kinds.every((kind) => kind.kind === "constant" || kind.kind === "choice")) return { ...field, kind: "choice", choices: kinds.flatMap((kind) => kind.choices) };
  return { ...field, kind: "oneOf", kinds };
}

/** What stands beside `oneOf` concerns each of its kinds, but the title, the help and the default concern the whole. */
function withoutKinds(schema: JsonMap): JsonMap {
  const { oneOf: _, anyOf: __, title: ___, description: ____, default: _____, discriminator: ______, ...beside } = schema;
  return beside;
}

type Inner = (part: Json | undefined, name?: string) => Field;

function readArray(field: Field, schema: JsonMap, inner: Inner): Field {
  if (Array.isArray(schema.prefixItems)) {
    const fields = Object.fromEntries(schema.prefixItems.map((part, index) => [String(index), inner(part, String(index + 1))]));
    return { ...field, kind: "tuple", fields, required: Object.keys(fields) };
  }
  const item = inner(schema.items);
  if (item.kind === "json" && Object.keys(asMap(schema.items)).length === 0) return { ...field, item };
  const kind: FieldKind = item.kind === "text" ? "tokens" : item.kind === "choice" ? "several" : "list";
  return { ...field, kind, item };
}

function readObject(field: Field, schema: JsonMap, inner: Inner): Field {
  const fields = Object.fromEntries(Object.entries(asMap(schema.properties)).map(([name, part]) => [name, inner(part, name)]));
  const required = Array.isArray(schema.required) ? schema.required.filter((name): name is string => typeof name === "string") : [];
  if (Object.keys(fields).length) return { ...field, kind: "group", fields, required };
  const values = schema.additionalProperties;
  return values && typeof values === "object" && Object.keys(values).length ? { ...field, kind: "map", item: inner(values) } : field;
}

function textKind(schema: JsonMap): FieldKind {
  if (schema.format === "date-time") return "moment";
  if (schema.format === "date") return "date";
  if (schema.format === "time") return "time";
  const isLong = schema.format === "textarea" || (typeof schema.maxLength === "number" && schema.maxLength > 200 && schema.format === undefined) || schema.contentMediaType === "text/markdown";
  return isLong ? "prose" : "text";
}

/** A title that was only made from the name says nothing: `Lead Email` for `lead_email`. */
function isGenerated(title: string, name: string): boolean {
  return title.toLowerCase().replaceAll(" ", "") === name.toLowerCase().replace(/[_\s-]/g, "");
}

/** Follow references, and merge what `allOf` says. The names of the references that were followed are added to `references`. */
function resolve(schema: JsonMap, root: JsonMap, references: string[], hops = 0): JsonMap {
  const { $ref: reference, allOf, ...own } = schema;
  if (hops > 10) return own;
  if (typeof reference === "string" && reference.startsWith("#/")) {
    references.push(reference);
    const found = reference
      .slice(2)
      .split("/")
      .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
      .reduce<JsonMap>((at, part) => asMap(at[part]), root);
    return { ...resolve(found, root, references, hops + 1), ...own };
  }
  if (!Array.isArray(allOf)) return schema;
  return allOf.map((part) => resolve(asMap(part), root, references, hops + 1)).reduceRight<JsonMap>((merged, part) => merge(part, merged), own);
}

function merge(one: JsonMap, other: JsonMap): JsonMap {
  const merged: JsonMap = { ...one, ...other };
  if (one.properties && other.properties) merged.properties = { ...asMap(one.properties), ...asMap(other.properties) };
  if (Array.isArray(one.required) && Array.isArray(other.required)) merged.required = [...new Set([...one.required, ...other.required])];
  return merged;
}

/** `anyOf: [X, null]` and `type: [X, "null"]` are X, which may also be left empty. */
function withoutNull(schema: JsonMap, root: JsonMap, references: string[]): { own: JsonMap; isNullable: boolean } {
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return { own: { ...schema, type: types.length === 1 ? (types[0] as Json) : types }, isNullable: types.length < schema.type.length };
  }
  for (const name of ["anyOf", "oneOf"]) {
    const several = schema[name];
    if (!Array.isArray(several)) continue;
    const rest = several.filter((each) => asMap(each).type !== "null");
    const { [name]: _, ...beside } = schema;
    if (rest.length === 1) return { own: { ...resolve(asMap(rest[0]), root, references), ...beside }, isNullable: several.length > 1 };
    if (rest.length < several.length) return { own: { ...beside, [name]: rest }, isNullable: true };
  }
  return { own: schema, isNullable: false };
}

/** Return what a field begins with; undefined for one that is left out unless somebody fills it in. */
export function defaultOf(field: Field): Json | undefined {
  if (field.schema.default !== undefined) return field.schema.default;
  switch (field.kind) {
    case "constant":
      return field.choices[0];
    case "group": {
      const values = Object.entries(field.fields).map(([name, inner]) => [name, field.required.includes(name) || inner.schema.default !== undefined ? defaultOf(inner) : undefined] as const);
      return Object.fromEntries(values.filter((entry): entry is readonly [string, Json] => entry[1] !== undefined));
    }
    case "tuple":
      return Object.values(field.fields).map((inner) => defaultOf(inner) ?? null);
    case "oneOf":
      return field.isNullable || !field.kinds[0] ? undefined : defaultOf(field.kinds[0]);
    default:
      return undefined;
  }
}

/** Return what a field begins with once somebody wants it: an empty group or list rather than nothing. */
export function beginningOf(field: Field): Json {
  const given = defaultOf(field);
  if (given !== undefined && given !== null) return given;
  if (field.kind === "group" || field.kind === "map") return {};
  if (field.kind === "list" || field.kind === "tokens" || field.kind === "several" || field.kind === "tuple") return [];
  return field.kind === "text" || field.kind === "prose" ? "" : null;
}

/** What a field allows, said before anything is wrong: `1 to 30`, `up to 3`, `optional`. */
export function constraintOf(field: Field, isRequired: boolean): string {
  const words = texts.form;
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minItems, maxItems, maxLength, minLength } = field.schema;
  const parts: string[] = [];
  if (typeof minimum === "number" && typeof maximum === "number") parts.push(words.between(minimum, maximum));
  else if (typeof minimum === "number") parts.push(words.from(minimum));
  else if (typeof maximum === "number") parts.push(words.upTo(maximum));
  if (typeof exclusiveMinimum === "number") parts.push(words.above(exclusiveMinimum).toLowerCase());
  if (typeof exclusiveMaximum === "number") parts.push(words.below(exclusiveMaximum).toLowerCase());
  if (typeof multipleOf === "number" && multipleOf !== 1) parts.push(words.multipleOf(multipleOf).toLowerCase());
  if (field.kind === "tokens" || field.kind === "list" || field.kind === "several") {
    if (typeof minItems === "number" && typeof maxItems === "number") parts.push(words.between(minItems, maxItems));
    else if (typeof maxItems === "number") parts.push(words.upTo(maxItems));
    else if (typeof minItems === "number" && minItems > 0) parts.push(words.from(minItems));
  }
  if (typeof maxLength === "number" && maxLength < 10_000) parts.push(`${typeof minLength === "number" && minLength > 1 ? `${formatCount(minLength)} to ` : "up to "}${formatCount(maxLength)} characters`);
  if (!isRequired) parts.push(words.optional);
  return parts.join(", ");
}
