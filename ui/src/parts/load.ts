/* Loading of what a view shows: keeps the old content while the new one is on its way. */

import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { isAbort } from "../api/errors";
import { repeat } from "../state/clock";

export interface Loaded<T> {
  data: T | null;
  error: unknown;
}

/** Load again whenever `keys` change, and every so many seconds; returns a signal and a function that loads at once. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, keys: unknown[], everySeconds = 0): [Signal<Loaded<T>>, () => void] {
  const state = useSignal<Loaded<T>>({ data: null, error: null });
  const once = async (signal: AbortSignal): Promise<void> => {
    try {
      const data = await load(signal);
      if (!signal.aborted) state.value = { data, error: null };
    } catch (error) {
      if (!isAbort(error) && !signal.aborted) state.value = { data: state.peek().data, error };
    }
  };
  useEffect(() => {
    const controller = new AbortController();
    state.value = { data: null, error: null };
    if (everySeconds) void repeat(() => once(controller.signal), () => everySeconds, controller.signal);
    else void once(controller.signal);
    return () => controller.abort();
  }, keys);
  return [state, () => void once(new AbortController().signal)];
}
