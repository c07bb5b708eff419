import { describe, expect, test } from "vitest";
import type { JsonMap } from "../src/api/types";
import { toLines } from "../src/diff/pretty";
import { diffStates } from "../src/diff/sections";
import { diffSequences } from "../src/diff/sequence";
import { diffWords } from "../src/diff/words";

function random(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

describe("sequences", () => {
  test("the runs give both sequences back, and are the shortest edit", () => {
    const draw = random(7);
    for (let round = 0; round < 300; round += 1) {
      const list = (): number[] => Array.from({ length: Math.floor(draw() * 12) }, () => Math.floor(draw() * 4));
      const [before, after] = [list(), list()];
      const runs = diffSequences(before, after);
      expect(runs.filter((run) => run.kind !== "add").flatMap((run) => run.items)).toEqual(before);
      expect(runs.filter((run) => run.kind !== "del").flatMap((run) => run.items)).toEqual(after);
      const same = runs.filter((run) => run.kind === "same").flatMap((run) => run.items).length;
      expect(same).toBe(longestCommon(before, after));
    }
  });

  test("sequences without anything in common are replaced, however long they are", () => {
    const before = Array.from({ length: 5000 }, (_, index) => index);
    const runs = diffSequences(before, before.map((item) => -1 - item));
    expect(runs.map((run) => [run.kind, run.items.length])).toEqual([["del", 5000], ["add", 5000]]);
  });
});

function longestCommon(a: number[], b: number[]): number {
  const rows = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = 1; i <= a.length; i += 1) {
    for (let j = 1; j <= b.length; j += 1) {
      (rows[i] as number[])[j] = a[i - 1] === b[j - 1] ? (rows[i - 1]?.[j - 1] ?? 0) + 1 : Math.max(rows[i - 1]?.[j] ?? 0, rows[i]?.[j - 1] ?? 0);
    }
  }
  return rows[a.length]?.[b.length] ?? 0;
}

describe("words", () => {
  test("neighbouring words that changed are one change", () => {
    const parts = diffWords("Copy the tables in one go and wait", "Copy the tables in parallel, slowly and wait");
    expect(parts.filter((part) => part.mark === "del").map((part) => part.text)).toEqual(["one go"]);
    expect(parts.filter((part) => part.mark === "ins").map((part) => part.text)).toEqual(["parallel, slowly"]);
  });

  test("both texts can be read from the parts", () => {
    const [before, after] = ["Dear Ann,\n\nyour invoice  is ready.", "Dear Ben,\n\nyour invoices are not ready!"];
    const parts = diffWords(before, after);
    expect(parts.filter((part) => part.mark !== "ins").map((part) => part.text).join("")).toBe(before);
    expect(parts.filter((part) => part.mark !== "del").map((part) => part.text).join("")).toBe(after);
  });
});

describe("states", () => {
  const sections = (before: JsonMap, after: JsonMap): string[][] => diffStates(before, after).map(({ kind, path, note }) => [kind, path, note]);

  test("keys are added, changed and removed; equal ones are left out", () => {
    expect(sections({ a: 1, b: { x: [1] }, gone: true }, { a: 2.5, b: { x: [1] }, news: "yes" })).toEqual([
      ["mod", "a", "number, +1.5"],
      ["add", "news", "text"],
      ["del", "gone", "true or false"],
    ]);
  });

  test("a list that grew shows only what was appended", () => {
    const [section] = diffStates({ log: ["a", "b"] }, { log: ["a", "b", "c"] });
    expect(section?.note).toBe("list, appended, 2 → 3");
    expect(section?.lines.map((line) => [line.kind, line.parts[0]?.text])).toEqual([["fold", "2 items as before"], ["add", '"c"']]);
  });

  test("a change within an item of a list is found by its path", () => {
    const files = (status: string): JsonMap => ({ files: [{ path: "a" }, { path: "b", status }] });
    expect(sections(files("open"), files("reviewed"))).toEqual([["mod", "files[1].status", "text"]]);
  });

  test("a long text shows the words that changed in its paragraph, and folds the others", () => {
    const first = "The first paragraph of the letter stays exactly as it was before.";
    const [section] = diffStates({ text: `${first}\n\nWe meet some time next week.` }, { text: `${first}\n\nWe meet on Tuesday at ten.` });
    expect(section?.lines.map((line) => line.kind)).toEqual(["fold", "both"]);
    expect(section?.lines[1]?.parts.filter((part) => part.mark === "ins").map((part) => part.text)).toEqual(["on Tuesday at ten"]);
  });

  test("messages stay messages", () => {
    const [section] = diffStates({ messages: [{ role: "user", content: "Hi" }] }, { messages: [{ role: "user", content: "Hi" }, { role: "assistant", content: "Hello" }] });
    expect(section?.note).toBe("conversation, 1 → 2");
    expect(section?.lines[1]?.message?.text).toBe("Hello");
  });

  test("a value that becomes null, or another type, is a change and not a crash", () => {
    expect(sections({ a: [1], b: null, c: {} }, { a: null, b: {}, c: [] }).map(([kind]) => kind)).toEqual(["mod", "add", "mod"]);
  });
});

test("JSON is broken only where a line is too long, and stays JSON", () => {
  const value = { id: 1, tables: ["ledger_entries", "audit_log", "sessions_raw", "geo_polygons"], deep: { empty: [], none: {} } };
  const lines = toLines(value);
  expect(lines.length).toBeGreaterThan(1);
  expect(JSON.parse(lines.join("\n"))).toEqual(value);
  expect(toLines([])).toEqual(["[]"]);
});
