/* What a person fills in to start a run. A network of agents keeps much in its state, but is asked by one message: its
   field `input`, which also continues a conversation. A graph of messages takes a list of them. */

import type { Json, JsonMap } from "../../api/types";
import { type Field, readField } from "../../form/schema";
import { asMap } from "../../json";
import { texts } from "../../texts";

const MESSAGE: JsonMap = { type: "string", title: texts.start.message, minLength: 1, maxLength: 100_000 };

/** Messages as a list of one: what the user says. */
const MESSAGES = readField({
  type: "array",
  minItems: 1,
  default: [{ role: "user", content: "" }],
  items: { type: "object", properties: { content: MESSAGE }, required: ["content"] },
});
const INPUT = readField({ type: "object", properties: { input: MESSAGE }, required: ["input"] });

/** Whether a value of `messages` is one message of the user, which is then written without the list around it. */
export function isOneMessage(field: Field, value: Json | undefined): boolean {
  return field.schema === MESSAGES.schema && Array.isArray(value) && value.length === 1 && Object.keys(asMap(value[0])).every((name) => ["role", "content"].includes(name));
}

/** Return the fields of the form. */
export function startField(schema: Json): Field {
  if (isNetwork(schema)) return INPUT;
  const field = readField(schema ?? undefined);
  const messages = field.kind === "group" ? field.fields.messages : undefined;
  if (!messages || messages.kind === "tokens") return field;
  const others = Object.entries(field.fields).filter(([name]) => name !== "messages" && field.required.includes(name));
  return { ...field, fields: { messages: { ...MESSAGES, label: messages.label }, ...Object.fromEntries(others) }, required: ["messages"] };
}

/** Return the input of an earlier run as the form has it: a network may have been asked by a list of one message. */
export function takeInput(schema: Json, input: Json): Json {
  if (!isNetwork(schema) || !isMap(input) || "input" in input || !Array.isArray(input.messages)) return input;
  const [message, ...more] = input.messages;
  return !more.length && isMap(message) && typeof message.content === "string" ? { input: message.content } : input;
}

/** Return the input that says something more to a thread. */
export function nextInput(schema: Json, text: string): Json {
  return isNetwork(schema) ? { input: text } : { messages: [{ role: "user", content: text }] };
}

function isNetwork(schema: Json): boolean {
  const properties = isMap(schema) ? schema.properties : undefined;
  return isMap(properties) && ["input", "turns", "call_count"].every((name) => name in properties);
}

function isMap(value: Json | undefined): value is JsonMap {
  return value !== null && value !== undefined && typeof value === "object" && !Array.isArray(value);
}
