/* Views that somebody has saved: a name for filters, kept in this browser. */

import { signal } from "@preact/signals";

export interface View {
  name: string;
  query: string;
}

const KEY = "statewright.views";

function read(): View[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((view): view is View => typeof view?.name === "string" && typeof view?.query === "string") : [];
  } catch {
    return [];
  }
}

export const savedViews = signal<View[]>(typeof localStorage === "undefined" ? [] : read());

function write(views: View[]): void {
  savedViews.value = views;
  localStorage.setItem(KEY, JSON.stringify(views));
}

export function saveView(name: string, query: string): void {
  write([...savedViews.value.filter((view) => view.name !== name), { name, query }]);
}

export function removeView(name: string): void {
  write(savedViews.value.filter((view) => view.name !== name));
}
