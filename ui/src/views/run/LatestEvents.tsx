/* The latest events of a run, and what events say in short. */

import type { RunEvent } from "../../api/types";
import { formatDuration, formatTime, formatValue } from "../../format";
import { Glyph, type Status } from "../../parts/glyphs";
import { texts } from "../../texts";

/** The latest events, for the pane below the waterfall. */
export function LatestEvents({ events, namesById, onAll }: { events: RunEvent[]; namesById: Map<string, string>; onAll: () => void }) {
  return (
    <div class="latest">
      <div class="subhead">
        <h2 class="grow">{texts.run.fall.latest}</h2>
        <button type="button" class="link" onClick={onAll}>
          {texts.run.fall.all(events.length)}
        </button>
      </div>
      {events
        .slice(-6)
        .reverse()
        .map((event) => (
          <div class="att tail" key={event.seq}>
            <span class="n num">{event.seq}</span>
            <Glyph status={statusOf(event.eventType)} isSilent />
            <span class="mid">{formatTime(event.createdAt)}</span>
            <span class="cut">
              {wordsOf(event.eventType)} <b>{String(event.payload.stepName ?? namesById.get(event.stepRunId ?? "") ?? "")}</b> <span class="quiet mono">{noteOf(event)}</span>
            </span>
            <span class="d">{tookOf(event)}</span>
          </div>
        ))}
    </div>
  );
}

export function statusOf(type: string): Status {
  if (/RETRY_SCHEDULED|RETRIED/.test(type)) return "retrying";
  if (/FAILED|LOST/.test(type)) return "failed";
  if (/COMPLETED|DECIDED|RECEIVED|FIRED|CALLED/.test(type)) return "completed";
  if (/CANCELLED/.test(type)) return "cancelled";
  if (/SKIPPED|IGNORED/.test(type)) return "skipped";
  if (/APPROVAL|QUESTION/.test(type)) return "waiting";
  if (/WAITING|TIMER|EXPIRED/.test(type)) return "timer";
  if (/PAUSED/.test(type)) return "paused";
  return "running";
}

/** `STEP_RETRY_SCHEDULED` as `retry scheduled`, `LLM_CALL_COMPLETED` as `llm call completed`. */
export function wordsOf(type: string): string {
  return type.replace(/^STEP_/, "").replaceAll("_", " ").toLowerCase();
}

/** What stands elsewhere in the row, or only leads to other records. */
const LEFT_OUT = new Set(["stepName", "stepType", "durationMs", "call", "error", "approvalId", "waitId", "stepRunId"]);
/** Fields whose values speak for themselves. */
const NAMELESS = new Set(["tool", "model", "agent", "reason", "signalType"]);

export function noteOf(event: RunEvent): string {
  const { error } = event.payload;
  if (error && typeof error === "object" && !Array.isArray(error)) return formatValue(error.message, 90);
  return Object.entries(event.payload)
    .filter(([name, value]) => !LEFT_OUT.has(name) && value !== null && value !== "")
    .map(([name, value]) => (name === "at" ? `at ${formatTime(String(value))}` : `${NAMELESS.has(name) ? "" : `${name} `}${formatValue(value, 40)}`))
    .join(", ")
    .slice(0, 120);
}

export function tookOf(event: RunEvent): string {
  const took = event.payload.durationMs;
  return typeof took === "number" ? formatDuration(took / 1000) : "";
}
