/* All events of a run, with their payloads. Only the rows that are visible are in the document. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { RunEvent } from "../../api/types";
import { formatDuration, formatTime, formatValue } from "../../format";
import { Glyph, type Status } from "../../parts/glyphs";
import { texts } from "../../texts";
import { windowAt } from "../runs/windowing";

const ROW = 32;

export function EventsTab({ events, namesById }: { events: RunEvent[]; namesById: Map<string, string> }) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(700);
  const opened = useSignal<number | null>(null);
  useEffect(() => {
    if (box.current) height.value = box.current.clientHeight;
  }, []);
  if (!events.length) return <p class="block quiet">{texts.run.events.none}</p>;
  const shown = windowAt(top.value, height.value, ROW, events.length);
  return (
    <div class="eventlist" ref={box} onScroll={(event) => (top.value = event.currentTarget.scrollTop)}>
      <div style={{ height: `${shown.first * ROW}px` }} />
      {events.slice(shown.first, shown.end).map((event) => (
        <EventRow key={event.seq} event={event} name={namesById.get(event.stepRunId ?? "") ?? ""} isOpen={opened.value === event.seq} onOpen={() => (opened.value = opened.value === event.seq ? null : event.seq)} />
      ))}
      <div style={{ height: `${(events.length - shown.end) * ROW}px` }} />
    </div>
  );
}

function EventRow({ event, name, isOpen, onOpen }: { event: RunEvent; name: string; isOpen: boolean; onOpen: () => void }) {
  return (
    <>
      <button type="button" class="att event" aria-expanded={isOpen} onClick={onOpen}>
        <span class="n">{event.seq}</span>
        <Glyph status={statusOf(event.eventType)} isSilent />
        <span class="mid">{formatTime(event.createdAt, true)}</span>
        <span class="cut">
          {wordsOf(event.eventType)} <b>{String(event.payload.stepName ?? name)}</b> <span class="quiet mono">{noteOf(event)}</span>
        </span>
        <span class="d">{tookOf(event)}</span>
      </button>
      {isOpen && <pre class="trace">{JSON.stringify(event.payload, null, 2)}</pre>}
    </>
  );
}

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

function statusOf(type: string): Status {
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
function wordsOf(type: string): string {
  return type.replace(/^STEP_/, "").replaceAll("_", " ").toLowerCase();
}

/** What stands elsewhere in the row, or only leads to other records. */
const LEFT_OUT = new Set(["stepName", "stepType", "durationMs", "call", "error", "approvalId", "waitId", "stepRunId"]);
/** Fields whose values speak for themselves. */
const NAMELESS = new Set(["tool", "model", "agent", "reason", "signalType"]);

function noteOf(event: RunEvent): string {
  const { error } = event.payload;
  if (error && typeof error === "object" && !Array.isArray(error)) return formatValue(error.message, 90);
  return Object.entries(event.payload)
    .filter(([name, value]) => !LEFT_OUT.has(name) && value !== null && value !== "")
    .map(([name, value]) => (name === "at" ? `at ${formatTime(String(value))}` : `${NAMELESS.has(name) ? "" : `${name} `}${formatValue(value, 40)}`))
    .join(", ")
    .slice(0, 120);
}

function tookOf(event: RunEvent): string {
  const took = event.payload.durationMs;
  return typeof took === "number" ? formatDuration(took / 1000) : "";
}
