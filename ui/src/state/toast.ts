/* One message at a time, at the bottom: what happened, and how to undo it. Errors stay until they are closed. */

import { signal } from "@preact/signals";
import { ApiError } from "../api/errors";

export interface Toast {
  text: string;
  isError: boolean;
  action?: { label: string; run: () => void } | undefined;
}

export const toast = signal<Toast | null>(null);
let timer: ReturnType<typeof setTimeout> | undefined;

export function say(text: string, action?: Toast["action"]): void {
  show({ text, isError: false, action });
  timer = setTimeout(close, 6000);
}

export function sayError(error: unknown): void {
  const request = error instanceof ApiError && error.requestId && error.status >= 500 ? ` (${error.requestId})` : "";
  show({ text: (error instanceof Error ? error.message : String(error)) + request, isError: true });
}

export function hold(): void {
  clearTimeout(timer);
}

export function close(): void {
  show(null);
}

function show(next: Toast | null): void {
  clearTimeout(timer);
  toast.value = next;
}

/** Perform an action of a button; a failure becomes a message. */
export async function attempt(action: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await action();
    if (done) say(done);
    return true;
  } catch (error) {
    sayError(error);
    return false;
  }
}
