/* What is wrong with a value, field by field, in words for people. The server has the last word. */

import type { Json, JsonMap } from "../api/types";
import { texts } from "../texts";
import { type Field } from "./schema";
import { asMap } from "../json";

/** Problems by the path of their field: `minutes`, `notify.2`; the empty path is the whole. */
export type Problems = Map<string, string>;

const words = texts.form;

export function validate(field: Field, value: Json | undefined, isRequired = true, path = "", problems: Problems = new Map()): Problems {
  const isNone = value === undefined || value === null;
  const problem = isNone ? problemOfNone(field, value, isRequired) : problemOf(field, value);
  if (problem) problems.set(path, problem);
  if (problem || isNone) return problems;
  const at = (name: string | number): string => (path ? `${path}.${name}` : String(name));
  switch (field.kind) {
    case "group":
      for (const [name, inner] of Object.entries(field.fields)) validate(inner, (value as JsonMap)[name], field.required.includes(name), at(name), problems);
      break;
    case "tuple":
      for (const [index, inner] of Object.entries(field.fields)) validate(inner, (value as Json[])[Number(index)], true, at(index), problems);
      break;
    case "map":
      for (const [name, item] of Object.entries(value as JsonMap)) if (field.item) validate(field.item, item, true, at(name), problems);
      break;
    case "oneOf":
      for (const [inner, found] of problemsOfKinds(field, value)) problems.set(inner ? at(inner) : path, found);
      break;
    default:
      if (field.item && Array.isArray(value)) for (const [index, item] of value.entries()) validate(field.item, item, true, at(index), problems);
  }
  return problems;
}

/** Return the index of the kind that a value is meant to be: the one that it fits, or comes nearest to; -1 for no value. */
export function kindOf(field: Field, value: Json | undefined): number {
  if (value === undefined || value === null) return -1;
  const distances = field.kinds.map((kind) => {
    if (!hasType(kind, value)) return 1e6;
    return [...validate(kind, value).keys()].reduce((sum, path) => sum + (isConstant(kind, path) ? 1000 : 1), 0);
  });
  return distances.indexOf(Math.min(...distances));
}

function problemsOfKinds(field: Field, value: Json): Problems {
  const kind = field.kinds[kindOf(field, value)];
  return kind ? validate(kind, value) : new Map();
}

/** A constant tells the kinds of a union apart: a value with another one is of another kind. */
function isConstant(kind: Field, path: string): boolean {
  return (path === "" ? kind : kind.fields[path])?.kind === "constant";
}

function hasType(field: Field, value: Json): boolean {
  switch (field.kind) {
    case "group":
    case "map":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "list":
    case "tokens":
    case "several":
    case "tuple":
      return Array.isArray(value);
    case "text":
    case "prose":
    case "moment":
    case "date":
    case "time":
      return typeof value === "string";
    case "number":
    case "integer":
      return typeof value === "number";
    case "truth":
      return typeof value === "boolean";
    default:
      return true;
  }
}

function problemOfNone(field: Field, value: null | undefined, isRequired: boolean): string | null {
  if (value === null && (field.isNullable || field.kind === "json" || field.choices.includes(null))) return null;
  if (value === undefined && (!isRequired || field.schema.default !== undefined)) return null;
  return field.kind === "json" ? null : words.needed;
}

function problemOf(field: Field, value: NonNullable<Json>): string | null {
  switch (field.kind) {
    case "text":
    case "prose":
    case "moment":
    case "date":
    case "time":
      return typeof value === "string" ? problemOfText(field, value) : words.text;
    case "number":
    case "integer":
      if (typeof value !== "number" || !Number.isFinite(value)) return field.kind === "integer" ? words.integer : words.number;
      return field.kind === "integer" && !Number.isInteger(value) ? words.integer : problemOfNumber(field.schema, value);
    case "truth":
      return typeof value === "boolean" ? null : words.truth;
    case "choice":
    case "constant":
      return field.choices.some((choice) => JSON.stringify(choice) === JSON.stringify(value)) ? null : words.oneOf;
    case "tokens":
    case "list":
    case "several":
      return Array.isArray(value) ? problemOfList(field.schema, value) : words.list;
    case "tuple":
      return Array.isArray(value) ? null : words.list;
    case "group":
      return typeof value === "object" && !Array.isArray(value) ? null : words.object;
    case "map":
      return typeof value === "object" && !Array.isArray(value) ? problemOfMap(field.schema, value) : words.object;
    case "oneOf":
      return field.kinds.some((kind) => hasType(kind, value)) ? null : words.oneOf;
    case "json":
      return field.schema.type === "object" && (typeof value !== "object" || Array.isArray(value)) ? words.object : field.schema.type === "array" && !Array.isArray(value) ? words.list : null;
  }
}

function problemOfText(field: Field, value: string): string | null {
  const { schema } = field;
  const length = [...value].length;
  if (typeof schema.minLength === "number" && length < schema.minLength) return length ? words.short(schema.minLength) : words.needed;
  if (typeof schema.maxLength === "number" && length > schema.maxLength) return words.long(schema.maxLength);
  if (typeof schema.pattern === "string" && !fitsPattern(schema.pattern, value)) return words.pattern;
  if (field.kind === "moment" && (Number.isNaN(Date.parse(value)) || !/\d[T ]\d/i.test(value))) return words.moment;
  if (field.kind === "date" && (Number.isNaN(Date.parse(value)) || !/^\d{4}-\d\d-\d\d$/.test(value))) return words.date;
  if (field.kind === "time" && !/^([01]\d|2[0-3]):[0-5]\d/.test(value)) return words.time;
  switch (schema.format) {
    case "email":
      return /^[^\s@]+@[^\s@]+$/.test(value) ? null : words.email;
    case "uri":
      return /^[a-z][a-z0-9+.-]*:\S+$/i.test(value) ? null : words.uri;
    case "uuid":
      return /^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/i.test(value) ? null : words.uuid;
    case "duration":
      return /^[+-]?P(?=.)(\d+(\.\d+)?[YMWD])*(T(\d+(\.\d+)?[HMS])+)?$/.test(value) ? null : words.duration;
    default:
      return null;
  }
}

function fitsPattern(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // a pattern of another dialect: the server will say
  }
}

function problemOfNumber(schema: JsonMap, value: number): string | null {
  if (typeof schema.minimum === "number" && value < schema.minimum) return words.atLeast(schema.minimum);
  if (typeof schema.maximum === "number" && value > schema.maximum) return words.atMost(schema.maximum);
  if (typeof schema.exclusiveMinimum === "number" && value <= schema.exclusiveMinimum) return words.above(schema.exclusiveMinimum);
  if (typeof schema.exclusiveMaximum === "number" && value >= schema.exclusiveMaximum) return words.below(schema.exclusiveMaximum);
  if (typeof schema.multipleOf === "number" && !isMultiple(value, schema.multipleOf)) return words.multipleOf(schema.multipleOf);
  return null;
}

function isMultiple(value: number, of: number): boolean {
  const times = value / of;
  return Math.abs(times - Math.round(times)) < 1e-9;
}

function problemOfList(schema: JsonMap, value: Json[]): string | null {
  if (typeof schema.minItems === "number" && value.length < schema.minItems) return words.fewItems(schema.minItems);
  if (typeof schema.maxItems === "number" && value.length > schema.maxItems) return words.manyItems(schema.maxItems);
  if (schema.uniqueItems === true && new Set(value.map((item) => JSON.stringify(item))).size < value.length) return words.unique;
  return null;
}

function problemOfMap(schema: JsonMap, value: JsonMap): string | null {
  const names = Object.keys(value);
  if (names.includes("")) return words.nameNeeded;
  if (typeof schema.minProperties === "number" && names.length < schema.minProperties) return words.fewItems(schema.minProperties);
  if (typeof schema.maxProperties === "number" && names.length > schema.maxProperties) return words.manyItems(schema.maxProperties);
  const { pattern, enum: allowed } = asMap(schema.propertyNames);
  const fits = (name: string): boolean => (typeof pattern !== "string" || fitsPattern(pattern, name)) && (!Array.isArray(allowed) || allowed.includes(name));
  return names.every(fits) ? null : words.nameWrong;
}
