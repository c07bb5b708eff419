/* What looks like the messages of a conversation, wherever it stands in a state. */

import type { Json, JsonMap } from "../api/types";

export interface ToolCall {
  id: string;
  name: string;
  arguments: Json;
}

export interface Message {
  role: string;
  name: string;
  text: string;
  calls: ToolCall[];
  /** The call that this message is the result of. */
  answers: string | null;
}

export function isMessage(value: Json | undefined): boolean {
  return value !== null && typeof value === "object" && !Array.isArray(value) && typeof value.role === "string" && "content" in value;
}

export function isConversation(value: Json | undefined): value is JsonMap[] {
  return Array.isArray(value) && value.length > 0 && value.every(isMessage);
}

export function readMessage(value: JsonMap): Message {
  const calls = Array.isArray(value.tool_calls) ? value.tool_calls : [];
  return {
    role: String(value.role),
    name: typeof value.name === "string" ? value.name : "",
    text: textOf(value.content),
    calls: calls.filter((call): call is JsonMap => call !== null && typeof call === "object" && !Array.isArray(call)).map(readCall),
    answers: typeof value.tool_call_id === "string" ? value.tool_call_id : null,
  };
}

function readCall(call: JsonMap): ToolCall {
  const made = call.function && typeof call.function === "object" && !Array.isArray(call.function) ? call.function : call;
  return { id: String(call.id ?? ""), name: String(made.name ?? ""), arguments: made.arguments ?? made.args ?? {} };
}

function textOf(content: Json | undefined): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === null || content === undefined ? "" : JSON.stringify(content);
  return content
    .map((part) => (typeof part === "string" ? part : part && typeof part === "object" && !Array.isArray(part) && typeof part.text === "string" ? part.text : ""))
    .filter(Boolean)
    .join("\n\n");
}

/** Return all messages in a value, in order, with the agent that wrote them where the value says so. */
export function findMessages(value: Json | undefined, agent = ""): Message[] {
  if (isMessage(value)) return [named(readMessage(value as JsonMap), agent)];
  if (Array.isArray(value)) return value.flatMap((item) => findMessages(item, agent));
  if (value && typeof value === "object") {
    const name = typeof value.agent_name === "string" ? value.agent_name : agent;
    const said = Array.isArray(value.turns) ? { ...value, message: null } : value; // a network repeats the last input there
    return Object.values(said).flatMap((item) => (item && typeof item === "object" ? findMessages(item, name) : []));
  }
  return [];
}

function named(message: Message, agent: string): Message {
  return message.name || message.role === "user" ? message : { ...message, name: agent };
}
