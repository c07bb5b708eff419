/* What waits for a person, as the inbox treats it: approvals, questions with or without a schema, and events. */

import type { Json, JsonMap, Wait } from "../../api/types";
import { readField, type Field } from "../../form/schema";
import { promptOf } from "../../state/waits";
import { texts } from "../../texts";

export type Kind = "approval" | "tool" | "question" | "event";

export function kindOf(wait: Wait): Kind {
  if (wait.kind === "event") return "event";
  if (asMap(wait.value)?.type === "approval") return "approval";
  return toolCallOf(wait) ? "tool" : "question";
}

/** The call of a tool that an agent asks about; null for another question. */
export function toolCallOf(wait: Wait): { tool: string; arguments: JsonMap } | null {
  const value = asMap(wait.value);
  if (value?.kind !== "approval" || typeof value.tool !== "string") return null;
  return { tool: value.tool, arguments: asMap(value.arguments ?? null) ?? {} };
}

function asMap(value: Json): JsonMap | null {
  return value && typeof value === "object" && !Array.isArray(value) ? value : null;
}

export function titleOf(wait: Wait): string {
  if (wait.kind === "event") return texts.inbox.waitsFor(wait.signalType ?? wait.stepName);
  const call = toolCallOf(wait);
  if (call) return texts.inbox.mayCall(call.tool);
  return promptOf(wait) ?? texts.sentence.asks(wait.stepName);
}

/** The content that an approval is about. */
export function contentOf(wait: Wait): Json {
  return asMap(wait.value)?.content ?? null;
}

/** What a question says beside its prompt: shown next to the form. */
export function detailsOf(wait: Wait): JsonMap {
  const value = asMap(wait.value);
  if (!value) return {};
  const title = titleOf(wait);
  const known = new Set(["type", "content", "contentKey", "prompt", ...(toolCallOf(wait) ? ["kind", "tool", "arguments", "tool_call_id"] : [])]);
  return Object.fromEntries(Object.entries(value).filter(([name, item]) => !known.has(name) && item !== title));
}

/** The field of the answer: by the schema, or a text if none was declared. */
export function fieldOf(wait: Wait): Field {
  const schema = asMap(wait.responseSchema);
  if (schema && Object.keys(schema).length) return readField(schema);
  return wait.kind === "event" ? readField({ type: "object", title: texts.inbox.payload }) : readField({ type: "string", maxLength: 9999, title: texts.inbox.content });
}
