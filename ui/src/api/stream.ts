/* Streams of server-sent events, which outlive restarts of the server.

   They are read with `fetch` rather than `EventSource`: the reader then knows why a stream ended (the run has ended, the
   server stopped, the key was revoked), and sets Last-Event-ID itself, so that it can begin after what was read before.
   Events of a run are numbered without gaps: an event is taken if its number is the next one, dropped if it was seen before,
   and a gap makes the reader begin again after the last one it has. So nothing is lost, and nothing is taken twice.

   Over HTTP/1.1 a browser opens six connections to a server, for all its tabs together, and a stream keeps one. With a
   stream in each tab the seventh tab would wait for ever. So a tab that stays hidden gives its streams up, and goes on after
   the last event when it is looked at again. */

import { noteReached, noteUnreachable } from "../state/connection";
import { noteSignedOut, ROOT } from "./client";
import { type ServerEvent, SseParser } from "./sse";
import type { LiveEvent, Run, RunEvent } from "./types";

const LONGEST_PAUSE = 8_000;
const SILENCE = 40_000; // the server sends a comment every 15 s
/** Milliseconds for which a hidden tab keeps its streams: who only looks something up in another tab misses nothing. */
const KEPT_HIDDEN = 10_000;
type Outcome = "end" | "lost" | "hidden" | "stop";

interface Reading {
  path: string;
  /** Called with the events of one piece of the stream. Returns the id to continue after, or null if an event is missing. */
  take: (events: ServerEvent[]) => string | null;
  /** Returns true if a stream that has ended is complete. */
  isComplete: () => boolean;
  onRefused?: ((status: number) => void) | undefined;
  signal: AbortSignal;
}

async function follow(lastId: string, reading: Reading): Promise<void> {
  let last = lastId;
  let failures = 0;
  while (!reading.signal.aborted) {
    const outcome = await readOnce(last, reading, (id) => {
      failures = 0;
      last = id;
    });
    if (outcome === "stop" || (outcome === "end" && reading.isComplete())) return;
    if (outcome === "hidden") {
      await untilVisible(reading.signal);
      continue;
    }
    if (outcome === "lost") {
      noteUnreachable();
      failures += 1;
    }
    await pause(Math.min(250 * 2 ** failures, LONGEST_PAUSE), reading.signal);
  }
}

async function readOnce(lastId: string, reading: Reading, seen: (id: string) => void): Promise<Outcome> {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  reading.signal.addEventListener("abort", stop);
  let alarm = setTimeout(stop, SILENCE);
  let isHidden = false;
  const stopWatching = whenLongHidden(() => {
    isHidden = true;
    stop();
  });
  try {
    const response = await fetch(ROOT + reading.path, {
      headers: { accept: "text/event-stream", ...(lastId ? { "last-event-id": lastId } : {}) },
      credentials: "same-origin",
      signal: controller.signal,
    });
    if (response.status >= 500 || response.status === 429) return "lost";
    if (!response.ok || !response.body) {
      if (response.status === 401) noteSignedOut(); // the key was revoked, or the session has ended
      reading.onRefused?.(response.status);
      return "stop";
    }
    noteReached();
    const parser = new SseParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "end";
      clearTimeout(alarm);
      alarm = setTimeout(stop, SILENCE);
      const events = parser.push(value);
      if (!events.length) continue;
      const last = reading.take(events);
      if (last === null) return "lost";
      seen(last);
    }
  } catch {
    return reading.signal.aborted ? "stop" : isHidden ? "hidden" : "lost";
  } finally {
    clearTimeout(alarm);
    stopWatching();
    reading.signal.removeEventListener("abort", stop);
    controller.abort();
  }
}

/** Call a function once the tab has been hidden for a while. Returns a function that stops the watch. */
function whenLongHidden(call: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = (): void => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(call, KEPT_HIDDEN);
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  };
}

function untilVisible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

export interface RunStreamOptions {
  after: number;
  onEvents: (events: RunEvent[]) => void;
  onLive: (event: LiveEvent) => void;
  hasEnded: () => boolean;
  onRefused: (status: number) => void;
  signal: AbortSignal;
}

/** Follow the events of one run, also those that are not stored, until it has ended. */
export function followRun(runId: string, options: RunStreamOptions): Promise<void> {
  let last = options.after;
  const take = (events: ServerEvent[]): string | null => {
    const fresh: RunEvent[] = [];
    for (const item of events) {
      if (item.id === null) {
        options.onLive(JSON.parse(item.data) as LiveEvent);
        continue;
      }
      const event = JSON.parse(item.data) as RunEvent;
      if (event.seq <= last) continue;
      if (event.seq > last + 1) return null;
      last = event.seq;
      fresh.push(event);
    }
    if (fresh.length) options.onEvents(fresh);
    return String(last);
  };
  const path = `/workflow-runs/${encodeURIComponent(runId)}/stream?live=true`;
  return follow(String(last), { path, take, isComplete: options.hasEnded, onRefused: options.onRefused, signal: options.signal });
}

/** Follow the changes of all runs; `onReset` says that too much was missed, so that lists have to be read again. */
export function followRuns(onRuns: (runs: Run[]) => void, onReset: () => void, signal: AbortSignal): Promise<void> {
  let last = "";
  const take = (events: ServerEvent[]): string => {
    if (events.some((event) => event.event === "reset")) onReset();
    const runs = events.filter((event) => event.event === "run").map((event) => JSON.parse(event.data) as Run);
    if (runs.length) onRuns(runs);
    last = events.findLast((event) => event.id !== null)?.id ?? last;
    return last;
  };
  return follow("", { path: "/workflow-runs/stream", take, isComplete: () => false, signal });
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, milliseconds);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}
