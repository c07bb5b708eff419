/* What changes in the workspace, as it happens: one stream for all views, which say what they want to hear. */

import { followRuns } from "../api/stream";
import type { Run } from "../api/types";

export interface Listener {
  onRuns: (runs: Run[]) => void;
  /** Too much was missed: read again what is shown. */
  onReset: () => void;
}

const listeners = new Set<Listener>();

/** Hear of changes until `signal` ends. */
export function hear(listener: Listener, signal: AbortSignal): void {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

export function startFeed(signal: AbortSignal): void {
  void followRuns(
    (runs) => listeners.forEach((listener) => listener.onRuns(runs)),
    () => listeners.forEach((listener) => listener.onReset()),
    signal,
  );
}
