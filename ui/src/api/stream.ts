/* The stream of a run's events, which outlives restarts of the server.

   It is read with `fetch` rather than `EventSource`: the reader then knows why a stream ended (the run has ended, the server
   stopped, the key was revoked), and sets Last-Event-ID itself, so that it can begin after the events that were read by
   pages. Numbers of events have no gaps, so an event is taken if its number is the next one, dropped if it was seen before,
   and a gap makes the reader begin again after the last one it has. */

import { noteReached, noteUnreachable } from "../state/connection";
import { ROOT } from "./client";
import { SseParser } from "./sse";
import type { LiveEvent, RunEvent } from "./types";

export interface StreamOptions {
  after: number;
  live?: boolean;
  onEvents: (events: RunEvent[]) => void;
  onLive?: (event: LiveEvent) => void;
  /** Returns true if the run has ended, so that a stream that ends is complete. */
  hasEnded: () => boolean;
  /** The server refuses the stream: the status of its response. */
  onRefused?: (status: number) => void;
  signal: AbortSignal;
}

const LONGEST_PAUSE = 8_000;
const SILENCE = 40_000; // the server sends a comment every 15 s

export async function followRun(runId: string, options: StreamOptions): Promise<void> {
  let last = options.after;
  let failures = 0;
  while (!options.signal.aborted) {
    const outcome = await readOnce(runId, last, options, (number) => {
      failures = 0;
      last = number;
    });
    if (outcome === "stop" || (outcome === "end" && options.hasEnded())) return;
    if (outcome === "lost") {
      noteUnreachable();
      failures += 1;
    }
    await pause(Math.min(250 * 2 ** failures, LONGEST_PAUSE), options.signal);
  }
}

async function readOnce(runId: string, after: number, options: StreamOptions, seen: (number: number) => void): Promise<"end" | "lost" | "stop"> {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  options.signal.addEventListener("abort", stop);
  let alarm = setTimeout(stop, SILENCE);
  let last = after;
  try {
    const response = await fetch(`${ROOT}/workflow-runs/${encodeURIComponent(runId)}/stream${options.live ? "?live=true" : ""}`, {
      headers: { accept: "text/event-stream", "last-event-id": String(after) },
      credentials: "same-origin",
      signal: controller.signal,
    });
    if (response.status >= 500 || response.status === 429) return "lost";
    if (!response.ok || !response.body) {
      options.onRefused?.(response.status);
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
      noteReached();
      const fresh: RunEvent[] = [];
      for (const item of parser.push(value)) {
        if (item.id === null) {
          options.onLive?.(JSON.parse(item.data) as LiveEvent);
          continue;
        }
        const event = JSON.parse(item.data) as RunEvent;
        if (event.seq <= last) continue;
        if (event.seq > last + 1) return "lost"; // a gap: begin again after the last event
        last = event.seq;
        fresh.push(event);
      }
      if (fresh.length) {
        seen(last);
        options.onEvents(fresh);
      }
    }
  } catch {
    return options.signal.aborted ? "stop" : "lost";
  } finally {
    clearTimeout(alarm);
    options.signal.removeEventListener("abort", stop);
    controller.abort();
  }
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
