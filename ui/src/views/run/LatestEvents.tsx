/* The latest events of a run, and what events say in short. */

import type { RunEvent } from "../../api/types";
import { formatTime, formatValue } from "../../format";
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
            <span />
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

export function noteOf(event: RunEvent): string {
  const { stepName: _, stepType: __, ...rest } = event.payload;
  const error = rest.error;
  if (error && typeof error === "object" && !Array.isArray(error)) return formatValue(error.message, 90);
  return Object.entries(rest)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name} ${formatValue(value, 40)}`)
    .join(", ")
    .slice(0, 120);
}
