/* The open waits of all runs: the inbox lists them, and lists of runs say with them what a run waits for. */

import { computed, signal } from "@preact/signals";
import { api } from "../api/client";
import type { Json, Run, Wait } from "../api/types";
import { repeat } from "./clock";
import { hear } from "./feed";

export const waits = signal<Wait[] | null>(null);
export const waitTotal = signal(0);
export const waitsByRun = computed(() => {
  const byRun = new Map<string, Wait[]>();
  for (const wait of waits.value ?? []) byRun.set(wait.workflowRunId, [...(byRun.get(wait.workflowRunId) ?? []), wait]);
  return byRun;
});

/** Waits that a person can end: questions, and events by name. */
export const answerable = computed(() => (waits.value ?? []).filter(isAnswerable));

export function isAnswerable(wait: Wait): boolean {
  return wait.kind === "question" || (wait.kind === "event" && !wait.signalType?.startsWith("__"));
}

export async function loadWaits(signal?: AbortSignal): Promise<void> {
  const page = await api.waits({ pageSize: 100 }, signal);
  const text = JSON.stringify(page.items);
  if (text !== lastText) {
    lastText = text;
    waits.value = page.items;
  }
  waitTotal.value = page.meta.total;
}
let lastText = "";

/** Keep the waits up to date: they change when runs begin or cease to wait. */
export function startWaits(signal: AbortSignal): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const soon = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => void loadWaits(signal).catch(() => undefined), 150);
  };
  const isWaiting = (run: Run): boolean => run.status === "waiting" || (run.activity?.waitCount ?? 0) > 0;
  hear({ onRuns: (runs) => runs.some((run) => isWaiting(run) || waitsByRun.peek().has(run.id)) && soon(), onReset: soon }, signal);
  void repeat(() => loadWaits(signal), () => 60, signal);
}

/** The sentence of a question. */
export function promptOf(wait: Wait): string | null {
  return promptIn(wait.value);
}

export function promptIn(value: Json): string | null {
  if (typeof value === "string") return value;
  if (value && typeof value === "object" && !Array.isArray(value)) {
    for (const name of ["prompt", "question", "message", "title", "text"]) {
      const found = value[name];
      if (typeof found === "string" && found) return found;
    }
  }
  return null;
}
