/* Which rows of a long list are in the document. Rows have a fixed height, so nothing has to be measured. */

export const MOST_ROWS = 60;
const OVERSCAN = 12;

export interface Window {
  /** The first row that is rendered, and the one after the last. */
  first: number;
  end: number;
}

/** Return the rows that are visible at a position, and some around them; never more than `MOST_ROWS`. */
export function windowAt(top: number, height: number, rowHeight: number, count: number): Window {
  const visible = Math.min(Math.ceil(height / rowHeight) + 1, MOST_ROWS);
  const around = Math.min(OVERSCAN, Math.floor((MOST_ROWS - visible) / 2));
  const last = Math.max(0, count - visible);
  const at = Math.min(Math.max(0, Math.floor(top / rowHeight)), last);
  return { first: Math.max(0, at - around), end: Math.min(count, at + visible + around) };
}

/** Return the numbers of the pages, from 1, that hold the rows of a window. */
export function pagesOf(window: Window, pageSize: number): number[] {
  if (window.end <= window.first) return [];
  const first = Math.floor(window.first / pageSize) + 1;
  const last = Math.floor((window.end - 1) / pageSize) + 1;
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
