/* What differs between two states, as sections of lines: one for each key that changed, or for each path within it. */

import type { Json, JsonMap } from "../api/types";
import { formatCount } from "../format";
import { texts } from "../texts";
import { isConversation, isMessage, type Message, readMessage } from "./messages";
import { toLines } from "./pretty";
import { diffSequences } from "./sequence";
import { countChanged, countWords, diffWords, type Part } from "./words";

export interface Line {
  kind: "add" | "del" | "same" | "fold" | "both";
  parts: Part[];
  isProse: boolean;
  message?: Message;
}

export interface Section {
  kind: "add" | "del" | "mod";
  path: string;
  note: string;
  lines: Line[];
}

const words = texts.diff;
const PROSE = 60;

/** Return the sections of two states, keys in the order of the schema, then as they stand in the states. */
export function diffStates(before: JsonMap, after: JsonMap, order: string[] = []): Section[] {
  const keys = [...new Set([...order, ...Object.keys(after), ...Object.keys(before)])].filter((key) => key in before || key in after);
  return keys.flatMap((key) => diffValues(key, before[key], after[key]));
}

export function isSame(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, index) => isSame(item, b[index]));
  const [x, y] = [a as JsonMap, b as JsonMap];
  const keys = Object.keys(x);
  return keys.length === Object.keys(y).length && keys.every((key) => key in y && isSame(x[key], y[key]));
}

function diffValues(path: string, before: Json | undefined, after: Json | undefined): Section[] {
  if (isSame(before, after)) return [];
  if (before === undefined || (before === null && after !== null)) return [{ kind: "add", path, note: describe(after as Json), lines: valueLines(after as Json, "add") }];
  if (after === undefined) return [{ kind: "del", path, note: describe(before), lines: valueLines(before, "del") }];
  if (typeof before === "string" && typeof after === "string") return [diffTexts(path, before, after)];
  if (Array.isArray(before) && Array.isArray(after)) return diffLists(path, before, after);
  if (isPlain(before) && isPlain(after)) {
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) => diffValues(`${path}.${key}`, before[key], after[key]));
  }
  return [{ kind: "mod", path, note: scalarNote(before, after), lines: [...marked(before, "del"), ...marked(after, "add")] }];
}

function isPlain(value: Json): value is JsonMap {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Say what a value is: `list of 4`, `text, 188 words`. */
export function describe(value: Json): string {
  if (Array.isArray(value)) return words.items(value.length);
  if (typeof value === "string") return value.length > PROSE ? `${words.text}, ${words.words(countWords(value))}` : words.text;
  if (typeof value === "number") return words.number;
  if (typeof value === "boolean") return words.truth;
  return value === null ? words.nothing : words.object(Object.keys(value).length);
}

function scalarNote(before: Json, after: Json): string {
  if (typeof before !== "number" || typeof after !== "number") return describe(after);
  const by = after - before;
  const text = formatCount(Number(Math.abs(by).toPrecision(6)));
  return `${words.number}, ${by < 0 ? "−" : "+"}${text}`;
}

const plain = (text: string): Part => ({ text, mark: "" });
const fold = (text: string): Line => ({ kind: "fold", parts: [plain(text)], isProse: false });

function marked(value: Json, kind: "add" | "del"): Line[] {
  return toLines(value).map((line) => ({ kind, parts: [{ text: line, mark: kind === "add" ? "ins" : "del" }], isProse: false }));
}

/** The lines of a value that is there on one side only. Messages stay messages, long text stays text. */
export function valueLines(value: Json, kind: "add" | "del" | "same"): Line[] {
  if (isConversation(value)) return value.map((item) => messageLine(item, kind));
  if (typeof value === "string" && value.length > PROSE) return value.split("\n").map((line) => ({ kind, parts: [plain(line)], isProse: true }));
  return toLines(value).map((line) => ({ kind, parts: [plain(line)], isProse: false }));
}

function messageLine(value: Json, kind: Line["kind"]): Line {
  return { kind, parts: [], isProse: false, message: readMessage(value as JsonMap) };
}

function diffTexts(path: string, before: string, after: string): Section {
  const isLong = Math.max(before.length, after.length) > PROSE;
  const parts = diffWords(before, after);
  const changed = countChanged(parts);
  if (!isLong) {
    const side = (mark: Part["mark"]): Part[] => parts.filter((part) => part.mark === "" || part.mark === mark);
    const quoted = (inner: Part[]): Part[] => [plain('"'), ...inner, plain('"')];
    const lines: Line[] = [
      { kind: "del", parts: quoted(side("del")), isProse: false },
      { kind: "add", parts: quoted(side("ins")), isProse: false },
    ];
    return { kind: "mod", path, note: words.text, lines };
  }
  const note = `${words.text}, ${words.words(countWords(after))}, ${formatCount(changed)} differ`;
  return { kind: "mod", path, note, lines: paragraphLines(before, after) };
}

/** Paragraphs that are as before are folded; one that changed shows both versions at once, word by word. */
function paragraphLines(before: string, after: string): Line[] {
  const isCode = /\n(?!\n)/.test(after) && !/\n\n/.test(after);
  const split = (text: string): string[] => text.split(isCode ? "\n" : /\n{2,}/);
  const runs = diffSequences(split(before), split(after));
  const lines: Line[] = [];
  for (let index = 0; index < runs.length; index += 1) {
    const run = runs[index];
    const next = runs[index + 1];
    if (!run) break;
    if (run.kind === "same") lines.push(fold(isCode ? words.linesAsBefore(run.items.length) : words.paragraphsAsBefore(run.items.length)));
    else if (run.kind === "del" && next?.kind === "add") {
      const count = Math.max(run.items.length, next.items.length);
      for (let row = 0; row < count; row += 1) lines.push(changedParagraph(run.items[row], next.items[row]));
      index += 1;
    } else for (const item of run.items) lines.push({ kind: run.kind, parts: [plain(item)], isProse: true });
  }
  return lines;
}

function changedParagraph(before: string | undefined, after: string | undefined): Line {
  if (before === undefined) return { kind: "add", parts: [plain(after ?? "")], isProse: true };
  if (after === undefined) return { kind: "del", parts: [plain(before)], isProse: true };
  return { kind: "both", parts: diffWords(before, after), isProse: true };
}

function diffLists(path: string, before: Json[], after: Json[]): Section[] {
  const runs = diffSequences(before, after, (item) => JSON.stringify(item));
  const isTalk = [...before, ...after].every(isMessage);
  const isAppended = runs.every((run, index) => run.kind === "same" ? index === 0 : run.kind === "add");
  const note = isTalk ? words.conversation(before.length, after.length) : isAppended ? words.appended(before.length, after.length) : words.list(before.length, after.length);
  const lines: Line[] = [];
  const nested: Section[] = [];
  let at = 0;
  for (let index = 0; index < runs.length; index += 1) {
    const run = runs[index];
    const next = runs[index + 1];
    if (!run) break;
    if (run.kind === "same") lines.push(fold(isTalk ? words.messagesAsBefore(run.items.length) : words.itemsAsBefore(run.items.length)));
    else if (run.kind === "del" && next?.kind === "add" && next.items.length === run.items.length && run.items.every((item, row) => isPlain(item) && isPlain(next.items[row] ?? null)) && !isTalk) {
      run.items.forEach((item, row) => nested.push(...diffValues(`${path}[${at + row}]`, item, next.items[row])));
      at += next.items.length;
      index += 1;
      continue;
    } else for (const item of run.items) lines.push(...(isMessage(item) ? [messageLine(item, run.kind)] : valueLines(item, run.kind)));
    if (run.kind !== "del") at += run.items.length;
  }
  const hasChanges = lines.some((line) => line.kind !== "fold");
  return [...(hasChanges ? [{ kind: "mod" as const, path, note, lines }] : []), ...nested];
}
