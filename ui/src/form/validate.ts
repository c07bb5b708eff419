/* What is wrong with a value, field by field, in words for people. The server has the last word. */

import type { Json, JsonMap } from "../api/types";
import { texts } from "../texts";
import type { Field } from "./schema";

/** Problems by the path of their field: `minutes`, `notify.2`; the empty path is the whole. */
export type Problems = Map<string, string>;

const words = texts.form;

export function validate(field: Field, value: Json | undefined, isRequired = true, path = "", problems: Problems = new Map()): Problems {
  const problem = value === undefined || value === null ? problemOfNone(field, value, isRequired) : problemOf(field, value);
  if (problem) problems.set(path, problem);
  if (problem || value === undefined || value === null) return problems;
  const at = (name: string | number): string => (path ? `${path}.${name}` : String(name));
  if (field.kind === "group" && !Array.isArray(value) && typeof value === "object") {
    for (const [name, inner] of Object.entries(field.fields)) validate(inner, (value as JsonMap)[name], field.required.includes(name), at(name), problems);
  }
  if (field.item && Array.isArray(value)) value.forEach((item, index) => validate(field.item as Field, item, true, at(index), problems));
  return problems;
}

function problemOfNone(field: Field, value: null | undefined, isRequired: boolean): string | null {
  if (value === null && (field.isNullable || field.kind === "json" || field.choices.includes(null))) return null;
  return isRequired && field.kind !== "json" ? words.needed : value === null && !isRequired ? words.needed : null;
}

function problemOf(field: Field, value: Json): string | null {
  switch (field.kind) {
    case "text":
    case "prose":
    case "moment":
    case "date":
      return typeof value === "string" ? problemOfText(field.schema, value) : words.text;
    case "number":
    case "integer":
      if (typeof value !== "number" || !Number.isFinite(value)) return field.kind === "integer" ? words.integer : words.number;
      return field.kind === "integer" && !Number.isInteger(value) ? words.integer : problemOfNumber(field.schema, value);
    case "truth":
      return typeof value === "boolean" ? null : words.truth;
    case "choice":
      return field.choices.some((choice) => JSON.stringify(choice) === JSON.stringify(value)) ? null : words.oneOf;
    case "tokens":
    case "list":
      return Array.isArray(value) ? problemOfList(field.schema, value) : words.list;
    case "group":
      return typeof value === "object" && !Array.isArray(value) ? null : words.object;
    case "oneOf":
      return field.kinds.some((kind) => validate(kind, value).size === 0) ? null : (field.kinds.map((kind) => validate(kind, value).values().next().value).find(Boolean) ?? words.oneOf);
    case "json":
      return field.schema.type === "object" && (typeof value !== "object" || Array.isArray(value)) ? words.object : field.schema.type === "array" && !Array.isArray(value) ? words.list : null;
  }
}

function problemOfText(schema: JsonMap, value: string): string | null {
  const length = [...value].length;
  if (typeof schema.minLength === "number" && length < schema.minLength) return length ? words.short(schema.minLength) : words.needed;
  if (typeof schema.maxLength === "number" && length > schema.maxLength) return words.long(schema.maxLength);
  if (typeof schema.pattern === "string" && !fitsPattern(schema.pattern, value)) return words.pattern;
  if ((schema.format === "date-time" || schema.format === "date") && Number.isNaN(Date.parse(value))) return words.moment;
  if (schema.format === "email" && !/^[^\s@]+@[^\s@]+$/.test(value)) return words.email;
  return null;
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
  return null;
}

function problemOfList(schema: JsonMap, value: Json[]): string | null {
  if (typeof schema.minItems === "number" && value.length < schema.minItems) return words.fewItems(schema.minItems);
  if (typeof schema.maxItems === "number" && value.length > schema.maxItems) return words.manyItems(schema.maxItems);
  return null;
}
