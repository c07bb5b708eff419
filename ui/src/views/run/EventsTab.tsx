/* All events of a run, with their payloads. Only the rows that are visible are in the document. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { RunEvent } from "../../api/types";
import { formatTime } from "../../format";
import { Glyph } from "../../parts/glyphs";
import { texts } from "../../texts";
import { windowAt } from "../runs/windowing";
import { noteOf, statusOf, tookOf, wordsOf } from "./LatestEvents";

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
