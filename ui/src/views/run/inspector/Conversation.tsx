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
}

export function Conversation({ messages, live = "", none }: ConversationProps) {
  if (!messages.length && !live) return <p class="block quiet">{none}</p>;
  const results = new Map(messages.filter((message) => message.answers).map((message) => [message.answers, message]));
  const known = new Set(messages.flatMap((message) => message.calls.map((call) => call.id)));
  return (
    <div class="block talk">
      {messages
        .filter((message) => !message.answers || !known.has(message.answers))
        .map((message, index) => (
          <Said key={index} message={message} results={results} />
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

function Said({ message, results }: { message: Message; results: Map<string | null, Message> }) {
  return (
    <div class={`say ${message.role}`}>
      <div class="from">{message.name || (ROLES[message.role] ?? message.role)}</div>
      {message.text.split(/\n{2,}/).map((paragraph, index) => paragraph && <p key={index}>{paragraph}</p>)}
      {message.calls.length > 0 && (
        <div class="tools">
          {message.calls.map((call) => (
            <Tool key={call.id} call={call} result={results.get(call.id)} />
          ))}
        </div>
      )}
    </div>
  );
}

function Tool({ call, result }: { call: ToolCall; result: Message | undefined }) {
  const values = call.arguments && typeof call.arguments === "object" && !Array.isArray(call.arguments) ? Object.values(call.arguments) : [call.arguments];
  return (
    <details class="tool">
      <summary>
        <Glyph status={result ? "completed" : "running"} />
        <code>{call.name}</code>
        <span class="args cut grow">{values.map((value) => formatValue(value, 40)).join(", ")}</span>
        <span class="quiet cut">{result ? formatValue(result.text, 24) : ""}</span>
      </summary>
      <pre>{JSON.stringify(call.arguments, null, 2)}</pre>
      {result && <pre>{result.text}</pre>}
    </details>
  );
}
