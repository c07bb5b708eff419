/* Whether the server answers, and since when it does not: what is shown then is stale, and says so. */

import { computed, signal } from "@preact/signals";
import { now } from "./clock";

const lostAt = signal<number | null>(null);

export function noteReached(): void {
  if (lostAt.peek() !== null) lostAt.value = null;
}

export function noteUnreachable(): void {
  if (lostAt.peek() === null) lostAt.value = Date.now();
}

/** Seconds for which the server has not answered; null while it does. */
export const staleFor = computed(() => (lostAt.value === null ? null : Math.max(0, Math.round((now.value - lostAt.value) / 1000))));
export const isOffline = computed(() => lostAt.value !== null);
