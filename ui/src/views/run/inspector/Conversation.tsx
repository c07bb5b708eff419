/* Messages as a conversation. The calls of tools are folded, with what they returned; text that is being written grows. */

import type { Message, ToolCall } from "../../../diff/messages";
import { formatValue } from "../../../format";
import { Glyph } from "../../../parts/glyphs";
import { texts } from "../../../texts";

const ROLES: Record<string, string> = { user: texts.start.you, assistant: "Assistant", system: "System", tool: "Tool" };

interface ConversationProps {
  messages: Message[];
  live?: string;
  none: string;
  /** The calls of tools that have ended, although their results are not among the messages yet. */
  ended?: Set<string>;
  /** True while the last message grows. */
  isGrowing?: boolean;
}

export function Conversation({ messages, live = "", none, ended, isGrowing = false }: ConversationProps) {
  if (!messages.length && !live) return <p class="block quiet">{none}</p>;
  const results = new Map(messages.filter((message) => message.answers).map((message) => [message.answers, message]));
  const known = new Set(messages.flatMap((message) => message.calls.map((call) => call.id)));
  return (
    <div class="block talk">
      {messages
        .filter((message) => !message.answers || !known.has(message.answers))
        .map((message, index) => (
          <Said key={index} message={message} results={results} ended={ended} isGrowing={isGrowing && message === messages[messages.length - 1]} />
        ))}
      {live && (
        <div class="say">
          <p>
            {live}
            <span class="caret" />
          </p>
        </div>
      )}
    </div>
  );
}

interface SaidProps {
  message: Message;
  results: Map<string | null, Message>;
  ended: Set<string> | undefined;
  isGrowing: boolean;
}

function Said({ message, results, ended, isGrowing }: SaidProps) {
  const paragraphs = message.text.split(/\n{2,}/).filter(Boolean);
  return (
    <div class={`say ${message.role}`}>
      <div class="from">{message.name || (ROLES[message.role] ?? message.role)}</div>
      {paragraphs.map((paragraph, index) => (
        <p key={index}>
          {paragraph}
          {isGrowing && index === paragraphs.length - 1 && <span class="caret" />}
        </p>
      ))}
      {message.calls.length > 0 && (
        <div class="tools">
          {message.calls.map((call) => (
            <Tool key={call.id} call={call} result={results.get(call.id)} hasEnded={ended?.has(call.id) ?? false} />
          ))}
        </div>
      )}
    </div>
  );
}

function Tool({ call, result, hasEnded }: { call: ToolCall; result: Message | undefined; hasEnded: boolean }) {
  const values = call.arguments && typeof call.arguments === "object" && !Array.isArray(call.arguments) ? Object.values(call.arguments) : [call.arguments];
  return (
    <details class="tool">
      <summary>
        <Glyph status={result || hasEnded ? "completed" : "running"} />
        <code>{call.name}</code>
        <span class="args cut grow">{values.map((value) => formatValue(value, 40)).join(", ")}</span>
        <span class="quiet cut">{result ? formatValue(result.text, 24) : ""}</span>
      </summary>
      <pre>{JSON.stringify(call.arguments, null, 2)}</pre>
      {result && <pre>{result.text}</pre>}
    </details>
  );
}
