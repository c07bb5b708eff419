/* What a run is doing, as one sentence; and the glyph and times of a run. */

import type { ComponentChildren } from "preact";
import type { Run, Wait } from "../../api/types";
import { formatCount, formatTime, secondsBetween } from "../../format";
import type { Status } from "../../parts/glyphs";
import { promptOf, waitsByRun } from "../../state/waits";
import { texts } from "../../texts";

/** A run that waits takes its glyph from what it waits for. */
export function glyphOf(run: Run): Status {
  if (run.status === "running" && run.activity?.kind === "retrying") return "retrying";
  if (run.status !== "waiting") return run.status;
  const waits = waitsByRun.value.get(run.id);
  if (waits?.length) return waits.some((wait) => wait.kind === "question") ? "waiting" : "timer";
  const kind = run.activity?.kind;
  return kind === "event" || kind === "timer" || kind === "child" ? "timer" : "waiting";
}

export function endOf(run: Run): string | null {
  return run.completedAt ?? run.failedAt ?? run.cancelledAt;
}

/** Seconds since the run began, until it ended; null if it has not begun. */
export function ageOf(run: Run, now: number): number | null {
  return run.startedAt ? Math.max(0, secondsBetween(run.startedAt, endOf(run) ?? now)) : null;
}

export interface Sentence {
  /** The tone of its first words: `bad`, `warm`, or none. */
  tone: "" | "bad" | "warm";
  lead: string;
  rest: ComponentChildren;
}

export function sentenceOf(run: Run): Sentence {
  const step = run.activity?.step ?? run.currentStepName ?? "";
  switch (run.status) {
    case "failed":
      return failure(run);
    case "waiting":
      return waiting(run, step);
    case "running":
      return running(run, step);
    case "pending":
      return plain("", run.activity?.kind === "scheduled" && run.activity.at ? texts.sentence.queuedUntil(formatTime(run.activity.at)) : texts.sentence.queued);
    case "paused":
      return plain(texts.sentence.paused, run.error?.message ?? (step ? texts.sentence.before(step) : ""));
    case "cancelled":
      return plain("", run.error?.message ?? texts.sentence.cancelled);
    case "completed":
      return plain("", run.activity && run.activity.text !== "Completed" ? run.activity.text : ""); // the status says that already
  }
}

function plain(lead: string, rest: ComponentChildren): Sentence {
  return { tone: "", lead, rest };
}

function failure(run: Run): Sentence {
  const { error } = run;
  const { attempt, maxAttempts } = run.activity ?? {};
  const message = (error?.message ?? "").replace(error?.code ? new RegExp(`^${error.code.replace(/\W/g, "\\$&")}: `) : /^$/, "");
  const rest = attempt && maxAttempts && maxAttempts > 1 ? texts.sentence.attempts(attempt, maxAttempts) + message : texts.sentence.failedAt(message);
  return { tone: "bad", lead: error?.step ?? run.graph, rest };
}

function waiting(run: Run, step: string): Sentence {
  const waits = waitsByRun.value.get(run.id) ?? [];
  const question = waits.find((wait) => wait.kind === "question");
  if (question) return { tone: "warm", lead: promptOf(question) ?? texts.sentence.asks(question.stepName), rest: "" };
  const { activity } = run;
  if (activity?.kind === "question" || activity?.kind === "approval") return { tone: "warm", lead: activity.text, rest: "" };
  const [wait] = waits;
  if (wait) return plain(texts.sentence.waitsFor, waitWords(wait));
  return plain(texts.sentence.waitsFor, run.nextRunAt ? `${step} ${texts.sentence.until(formatTime(run.nextRunAt))}` : step);
}

export function waitWords(wait: Wait): string {
  const until = wait.dueAt ? ` ${texts.sentence.until(formatTime(wait.dueAt))}` : "";
  if (wait.kind === "timer") return `${wait.stepName}${until}`;
  if (wait.signalType?.startsWith("__")) return `${texts.sentence.children}${until}`;
  return `${texts.sentence.signal(wait.signalType ?? wait.stepName)}${until}`;
}

function running(run: Run, step: string): Sentence {
  const { done, total, attempt, kind, at } = run.activity ?? {};
  if (total && total > 1) return plain(`${formatCount(done ?? 0)} / ${formatCount(total)}`, step);
  if (kind === "retrying") return { tone: "bad", lead: step, rest: texts.sentence.retries((attempt ?? 0) + 1) + (at ? texts.sentence.nextAt(formatTime(at)) : "") };
  return plain(step, texts.sentence.running);
}
