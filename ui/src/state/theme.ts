/* Dark or light: the system's choice, unless somebody has made another one. */

import { signal } from "@preact/signals";

export type Theme = "light" | "dark";
const KEY = "statewright.theme";

export const theme = signal<Theme | null>(null);

function apply(value: Theme | null): void {
  theme.value = value;
  if (value) document.documentElement.dataset.theme = value;
  else delete document.documentElement.dataset.theme;
}

export function startTheme(): void {
  const kept = localStorage.getItem(KEY);
  apply(kept === "light" || kept === "dark" ? kept : null);
}

export function switchTheme(): void {
  const isDark = theme.value ? theme.value === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const next: Theme = isDark ? "light" : "dark";
  localStorage.setItem(KEY, next);
  apply(next);
}
