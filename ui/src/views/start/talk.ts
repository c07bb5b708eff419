/* The conversation of a thread: what people and agents have said, in order, and what is being said.

   The state of a graph that keeps one list of messages has it already. A network keeps what it was asked apart from the
   results of its agents; there the inputs of the runs and the results are put in the order of their times. */

import type { Json, JsonMap, Run } from "../../api/types";
import { findMessages, isConversation, isMessage, type Message, readMessage } from "../../diff/messages";
import { asMap } from "../../json";
import type { LiveMessage } from "../run/live-messages";

/** A call of a tool that the events of the newest run tell of. */
export interface Called {
  id: string;
  tool: string;
  agent: string;
}

const ENDED = ["completed", "failed", "cancelled"];

export function talkOf(state: JsonMap | null, runs: Run[], live: LiveMessage[], called: Called[] = []): Message[] {
  const said = state ? messagesOf(state, runs) : [];
  const last = runs[runs.length - 1];
  const asked = last ? askedIn(last) : [];
  const isIn = !last || hasQuestion(said, asked, runs);
  const known = new Set(said.map((message) => message.id).filter(Boolean));
  const heard = live.filter((message) => !known.has(message.id) && (message.text || message.calls.length));
  const messages = [...said, ...(isIn ? [] : asked), ...heard];
  const calls = new Set(messages.flatMap((message) => message.calls.map((call) => call.id)));
  const unheard = called.filter((call) => !calls.has(call.id));
  if (!unheard.length) return messages;
  // Whoever opens the page while an agent works has not heard its messages, but sees what it has done.
  const done: Message = { id: null, role: "assistant", name: unheard[0]?.agent ?? "", text: "", calls: unheard.map(({ id, tool }) => ({ id, name: tool, arguments: {} })), answers: null };
  return [...said, ...(isIn ? [] : asked), done, ...heard];
}

/** Whether the state has the question of the newest run already: it has it only after the first superstep. */
function hasQuestion(said: Message[], asked: Message[], runs: Run[]): boolean {
  const questions = said.filter((message) => message.role === "user");
  const isLast = asked.length === 0 || questions[questions.length - 1]?.text === asked[asked.length - 1]?.text;
  const hasEnded = ENDED.includes(runs[runs.length - 1]?.status ?? "");
  return isLast && (hasEnded || questions.length >= runs.flatMap(askedIn).length);
}

/** The messages that a run was started with. */
export function askedIn(run: Run): Message[] {
  const { messages, input } = asMap(run.input);
  if (isConversation(messages)) return messages.map(readMessage);
  if (typeof messages === "string") return [spoken(messages)];
  return typeof input === "string" ? [spoken(input)] : [];
}

function spoken(text: string): Message {
  return { id: null, role: "user", name: "", text, calls: [], answers: null };
}

interface Result {
  at: string;
  messages: Message[];
}

function messagesOf(state: JsonMap, runs: Run[]): Message[] {
  const results = findResults(state);
  if (!results.length) return findMessages(state);
  // A network that was asked by its field `input` keeps the question with the results.
  const kept = new Set(results.flatMap(({ messages }) => messages.filter((message) => message.role === "user").map((message) => message.text)));
  const questions: Result[] = runs.map((run) => ({ at: run.createdAt, messages: askedIn(run).filter((message) => !kept.has(message.text)) }));
  return [...questions, ...results].sort((one, other) => Date.parse(one.at) - Date.parse(other.at)).flatMap(({ messages }) => messages);
}

/** The results of agents in a value, wherever they stand. */
function findResults(value: Json): Result[] {
  if (Array.isArray(value)) return value.flatMap(findResults);
  if (!value || typeof value !== "object" || isMessage(value)) return [];
  const { agent_name: name, created_at: at, messages } = value;
  if (typeof name === "string" && typeof at === "string" && Array.isArray(messages)) return [{ at, messages: findMessages(messages, name) }];
  return Object.values(value).flatMap(findResults);
}
