/* The width of the inspector, kept in this browser. */

import { signal } from "@preact/signals";

export const NARROWEST = 320;
export const WIDEST = 720;
export const USUAL = 448;
const KEY = "statewright.inspector";

export const width = signal(typeof localStorage === "undefined" ? USUAL : toWidth(Number(localStorage.getItem(KEY) || USUAL)));

export function toWidth(pixels: number): number {
  return Number.isFinite(pixels) ? Math.round(Math.min(WIDEST, Math.max(NARROWEST, pixels))) : USUAL;
}

/** Return the width after a key on the separator: arrows move it, with shift further; Home and End lead to the limits. */
export function widthAfter(key: string, hasShift: boolean, pixels: number): number | null {
  const step = hasShift ? 64 : 16;
  switch (key) {
    case "ArrowLeft":
      return toWidth(pixels + step); // the inspector stands at the right
    case "ArrowRight":
      return toWidth(pixels - step);
    case "Home":
      return NARROWEST;
    case "End":
      return WIDEST;
    default:
      return null;
  }
}

export function setWidth(pixels: number): void {
  width.value = toWidth(pixels);
  localStorage.setItem(KEY, String(width.value));
}
