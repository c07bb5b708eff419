/* Messages that models are writing, put together from the pieces of the stream. Each piece names its message. */

import type { Json, JsonMap } from "../../api/types";
import { asMap } from "../../json";
import type { Message } from "../../diff/messages";

/** A message that grows; the arguments of its calls are text until they are complete. */
export interface LiveMessage extends Message {
  id: string;
  drafts: string[];
}

/** Return the messages with one more piece; the same list if the piece is of no message. */
export function takePiece(messages: LiveMessage[], payload: Json): LiveMessage[] {
  const piece = asMap(payload);
  const id = typeof piece.id === "string" ? piece.id : null;
  if (!id || typeof piece.role !== "string") return messages;
  const at = messages.findIndex((message) => message.id === id);
  const known = messages[at] ?? { id, role: piece.role, name: typeof piece.name === "string" ? piece.name : "", text: "", calls: [], answers: typeof piece.tool_call_id === "string" ? piece.tool_call_id : null, drafts: [] };
  const grown = { ...known, text: known.text + (typeof piece.content === "string" ? piece.content : "") };
  const chunks = Array.isArray(piece.tool_call_chunks) ? piece.tool_call_chunks.map(asMap) : [];
  const changed = chunks.reduce(takeChunk, grown);
  return at < 0 ? [...messages, changed] : messages.map((message, index) => (index === at ? changed : message));
}

function takeChunk(message: LiveMessage, chunk: JsonMap): LiveMessage {
  const index = typeof chunk.index === "number" ? chunk.index : 0;
  const calls = [...message.calls];
  const drafts = [...message.drafts];
  const call = calls[index] ?? { id: "", name: "", arguments: {} };
  drafts[index] = (drafts[index] ?? "") + (typeof chunk.arguments === "string" ? chunk.arguments : "");
  calls[index] = {
    id: call.id || (typeof chunk.id === "string" ? chunk.id : ""),
    name: call.name + (typeof chunk.name === "string" ? chunk.name : ""),
    arguments: parse(drafts[index] ?? ""),
  };
  return { ...message, calls, drafts };
}

function parse(draft: string): Json {
  try {
    return JSON.parse(draft) as Json;
  } catch {
    return draft;
  }
}
