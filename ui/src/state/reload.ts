/* What a development server says of the files that are being edited: whether a newer version has problems. Other servers
   say once that they watch no files, and are not asked again. */

import { computed, signal } from "@preact/signals";
import { api } from "../api/client";
import type { LoadProblem, Reload } from "../api/types";
import { repeat } from "./clock";

const SECONDS = 2;

export const reload = signal<Reload | null>(null);

/** True while a changed file cannot be loaded, so that an older version runs. */
export const hasProblems = computed(() => reload.value?.failedAt != null);

/** Changes when another version of the files is served: what was read of graphs is then read again. */
export const servedVersion = computed(() => reload.value?.loadedAt ?? "");

export function startReload(abort: AbortSignal): void {
  const stop = new AbortController();
  abort.addEventListener("abort", () => stop.abort());
  const once = async (): Promise<void> => {
    const found = await api.reload(stop.signal);
    if (JSON.stringify(found) !== JSON.stringify(reload.peek())) reload.value = found;
    if (!found.watches) stop.abort();
  };
  void repeat(once, () => SECONDS, stop.signal);
}

export interface ProblemFile {
  name: string;
  text: string | null;
  problems: LoadProblem[];
}

/** The files with problems; problems that are in no file come first, under an empty name. */
export function filesOf(found: Reload): ProblemFile[] {
  const names = [...new Set(found.problems.map((problem) => problem.file ?? ""))].sort((a, b) => Number(a !== "") - Number(b !== ""));
  return names.map((name) => ({
    name,
    text: found.texts[name] ?? null,
    problems: found.problems.filter((problem) => (problem.file ?? "") === name).sort((a, b) => (a.line ?? 0) - (b.line ?? 0)),
  }));
}

export interface ShownLine {
  number: number;
  text: string;
  problems: LoadProblem[];
}

/** A piece of a file: lines, or how many are left out. */
export type Piece = { lines: ShownLine[] } | { folded: number };

/** Return the lines around each problem of a file, and folds for the rest; with `isWhole` all lines. */
export function piecesOf(text: string, problems: LoadProblem[], around: number, isWhole = false): Piece[] {
  const rows = text.replace(/\n$/, "").split("\n");
  const wanted = problems.map((problem) => Math.min(problem.line ?? 0, rows.length)).filter((line) => line > 0);
  const isShown = (line: number): boolean => isWhole || (wanted.length ? wanted.some((at) => Math.abs(at - line) <= around) : line <= 2 * around);
  const pieces: Piece[] = [];
  for (const [index, row] of rows.entries()) {
    const number = index + 1;
    const last = pieces[pieces.length - 1];
    if (!isShown(number)) {
      if (last && "folded" in last) last.folded += 1;
      else pieces.push({ folded: 1 });
      continue;
    }
    const line = { number, text: row, problems: problems.filter((problem) => problem.line !== null && Math.min(problem.line, rows.length) === number) };
    if (last && "lines" in last) last.lines.push(line);
    else pieces.push({ lines: [line] });
  }
  return pieces;
}
