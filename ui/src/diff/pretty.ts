/* JSON over several lines, as short as people would write it: what fits on a line stays on it. */

import type { Json } from "../api/types";
import { toLine } from "../format";

const WIDTH = 64;

export function toLines(value: Json, indent = ""): string[] {
  const line = toLine(value);
  if (indent.length + line.length <= WIDTH || value === null || typeof value !== "object") return [indent + line];
  const inner = `${indent} `;
  if (Array.isArray(value)) return wrap("[", "]", value.map((item) => toLines(item, inner)), indent);
  const entries = Object.entries(value).map(([name, item]) => {
    const [first = "", ...rest] = toLines(item, inner);
    return [`${inner}${JSON.stringify(name)}: ${first.slice(inner.length)}`, ...rest];
  });
  return wrap("{", "}", entries, indent);
}

/** Set items between brackets, with the brackets on the lines of the first and the last item. */
function wrap(open: string, close: string, items: string[][], indent: string): string[] {
  const lines = items.flatMap((item, index) => {
    const isLast = index === items.length - 1;
    return item.map((line, row) => (row === item.length - 1 && !isLast ? `${line},` : line));
  });
  const first = lines[0] ?? "";
  lines[0] = `${indent}${open}${first.slice(indent.length + 1)}`;
  lines[lines.length - 1] += close;
  return lines;
}
