/* One timer counts all times on the page: once a second, and not at all in a hidden tab. */

import { signal } from "@preact/signals";

export const now = signal(Date.now());

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) now.value = Date.now();
  });
}

/** Call a function regularly while the tab is visible; `signal` ends it. The next call begins after the last has ended. */
export async function repeat(call: () => Promise<unknown>, seconds: () => number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    if (!document.hidden) await call().catch(() => undefined);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, seconds() * 1000);
      function done(): void {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        document.removeEventListener("visibilitychange", wake);
        resolve();
      }
      function wake(): void {
        if (!document.hidden) done();
      }
      signal.addEventListener("abort", done);
      document.addEventListener("visibilitychange", wake);
    });
  }
}
