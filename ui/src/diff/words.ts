/* Two texts compared word by word, as people read them. */

import { diffSequences } from "./sequence";

export interface Part {
  text: string;
  mark: "" | "ins" | "del";
}

function toWords(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];
}

export function diffWords(before: string, after: string): Part[] {
  const parts: Part[] = diffSequences(toWords(before), toWords(after)).map(({ kind, items }) => ({
    text: items.join(""),
    mark: kind === "add" ? "ins" : kind === "del" ? "del" : "",
  }));
  return orderPairs(joinAcrossSpace(parts));
}

/** Changed words with only a space between them are one change: `in one go`, not `in`, `one` and `go`. */
function joinAcrossSpace(parts: Part[]): Part[] {
  const joined: Part[] = [];
  parts.forEach((part, index) => {
    const isGap = part.mark === "" && /^\s+$/.test(part.text) && index > 0 && index < parts.length - 1;
    if (isGap) joined.push({ text: part.text, mark: "del" }, { text: part.text, mark: "ins" });
    else joined.push(part);
  });
  return joined;
}

/** Within a stretch of changes, all that was removed stands before all that was added. */
function orderPairs(parts: Part[]): Part[] {
  const ordered: Part[] = [];
  let [removed, added] = ["", ""];
  const flush = (): void => {
    const tail = /\s*$/.exec(removed)?.[0] ?? "";
    const shared = tail && added.endsWith(tail) ? tail : "";
    const cut = (text: string): string => (shared ? text.slice(0, -shared.length) : text);
    if (cut(removed)) ordered.push({ text: cut(removed), mark: "del" });
    if (cut(added)) ordered.push({ text: cut(added), mark: "ins" });
    if (shared) ordered.push({ text: shared, mark: "" });
    [removed, added] = ["", ""];
  };
  for (const part of parts) {
    if (part.mark === "del") removed += part.text;
    else if (part.mark === "ins") added += part.text;
    else {
      flush();
      ordered.push(part);
    }
  }
  flush();
  return ordered;
}

/** The number of words that differ, on the side where there are more. */
export function countChanged(parts: Part[]): number {
  const count = (mark: Part["mark"]): number => parts.filter((part) => part.mark === mark).reduce((sum, part) => sum + countWords(part.text), 0);
  return Math.max(count("ins"), count("del"));
}

export function countWords(text: string): number {
  return text.match(/[\p{L}\p{N}_]+/gu)?.length ?? 0;
}
