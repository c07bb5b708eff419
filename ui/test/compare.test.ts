import { describe, expect, test } from "vitest";
import type { Checkpoint, JsonMap } from "../src/api/types";
import { alignRuns, changesOf, fieldsThatDiffer, findParting, readStates, type States, type Trail } from "../src/views/compare/align";
import type { Visit } from "../src/views/run/model";

/** A run that visits nodes one after another; each adds its own letters to the state, or what `changes` says. */
function run(names: string, input: JsonMap = {}, changes: Record<string, JsonMap> = {}, statuses: Record<string, string> = {}): Trail {
  const states = new Map<number, States>();
  let state = input;
  const visits = names.split(" ").filter(Boolean).map((name, index) => {
    const before = state;
    state = { ...state, [name]: true, ...changes[name] };
    states.set(index + 1, { before, after: state });
    return { key: `${name}.${index + 1}`, name, superstep: index + 1, status: statuses[name] ?? "completed", tasks: [{ step: { output: null } }], endedAt: 1 } as unknown as Visit;
  });
  return { visits, states };
}

const shape = (a: Trail, b: Trail) => alignRuns(a, b).map((row) => [row.a?.name ?? "-", row.b?.name ?? "-", row.differs.join(" ")].join(" | "));

describe("two runs side by side", () => {
  test("that did the same have nothing that differs", () => {
    const rows = alignRuns(run("a b c"), run("a b c"));
    expect(rows.every((row) => row.isKnown && !row.differs.length)).toBe(true);
    expect(findParting(rows)).toBeNull();
  });

  test("part where another input was read, and what follows from it is nothing new", () => {
    const rows = alignRuns(run("a b", { amount: 1 }), run("a b", { amount: 2 }));
    expect(rows.map(({ differs, isCarried }) => [differs, isCarried])).toEqual([
      [["input"], false],
      [["input"], true],
    ]);
    expect(findParting(rows)?.first).toBe(rows[0]);
    expect(findParting(rows)?.route).toBeNull();
  });

  test("part where the same step returned something else", () => {
    const rows = alignRuns(run("a b c"), run("a b c", {}, { b: { risk: 9 } }));
    const parting = findParting(rows);
    expect([parting?.first.a?.name, parting?.first.differs]).toEqual(["b", ["output"]]);
  });

  test("part where they take another way, and meet again", () => {
    const [a, b] = [run("judge ship receipt"), run("judge release receipt")];
    expect(shape(a, b).map((row) => row.split(" | ").slice(0, 2))).toEqual([["judge", "judge"], ["ship", "release"], ["receipt", "receipt"]]);
    const parting = findParting(alignRuns(a, b));
    expect([parting?.after, parting?.route?.a?.name, parting?.route?.b?.name]).toEqual(["judge", "ship", "release"]);
  });

  test("do not go through steps that were skipped", () => {
    const rows = alignRuns(run("judge ship release", {}, {}, { release: "skipped" }), run("judge ship release", {}, {}, { ship: "skipped" }));
    expect(rows.map((row) => [row.a?.name, row.b?.name])).toEqual([["judge", "judge"], ["ship", "release"]]);
  });

  test("part where one ends, or has been through a loop more often", () => {
    expect(shape(run("a b"), run("a"))).toEqual(["a | a | ", "b | - | route"]);
    const rows = alignRuns(run("plan write judge write judge end"), run("plan write judge end"));
    expect(rows.filter((row) => row.differs.includes("route")).map((row) => row.a?.key)).toEqual(["write.4", "judge.5"]);
    expect(rows.at(-1)?.b?.name).toBe("end");
  });

  test("part where a step has failed in one of them", () => {
    const rows = alignRuns(run("a b"), run("a b", {}, {}, { b: "failed" }));
    expect(findParting(rows)?.first.differs).toContain("result");
  });

  test("keep every step of both, each once, in its own order", () => {
    const names = ["a", "b", "c", "d"];
    const random = (seed: number): string => Array.from({ length: 1 + (seed % 12) }, (_, index) => names[(seed * 7 + index * index * (1 + (seed % 3))) % 4]).join(" ");
    for (let seed = 0; seed < 60; seed += 1) {
      const [a, b] = [run(random(seed)), run(random(seed * 3 + 1))];
      const rows = alignRuns(a, b);
      expect(rows.flatMap((row) => row.a ?? [])).toEqual(a.visits);
      expect(rows.flatMap((row) => row.b ?? [])).toEqual(b.visits);
      expect(new Set(rows.map((row) => row.key)).size).toBe(rows.length);
    }
  });

  test("do not differ in the order of nodes that ran at the same time", () => {
    const at = (name: string): Visit => ({ key: `${name}.1`, name, superstep: 1, status: "completed", tasks: [{ step: { output: null } }], endedAt: 1 }) as unknown as Visit;
    const states = new Map([[1, { before: {}, after: { x: 1 } }]]);
    expect(shape({ visits: [at("x"), at("y")], states }, { visits: [at("y"), at("x")], states })).toEqual(["x | x | ", "y | y | "]);
  });

  test("say what was not compared because its states are not known", () => {
    const unknown = { ...run("a b"), states: new Map() };
    expect(alignRuns(run("a b"), unknown).map((row) => [row.isKnown, row.differs])).toEqual([[false, []], [false, []]]);
  });
});

describe("the states of a run", () => {
  const point = (id: string, parent: string | null, step: number, runId: string | null, values: JsonMap): Checkpoint => ({ threadId: "t", checkpointId: id, parentCheckpointId: parent, branch: "main", values, sizeBytes: 2, next: [], metadata: { step, ...(runId ? { run_id: runId } : {}) }, createdAt: null, tasks: [] });

  test("are those around each superstep, back to where the run began", () => {
    const history = [point("d", "c", 4, "r2", { x: 4 }), point("c", "b", 3, "r2", { x: 3 }), point("b", "a", 2, "r1", { x: 2 }), point("a", null, 1, "r1", { x: 1 })];
    const states = readStates("r2", history);
    expect(states.get(4)).toEqual({ before: { x: 3 }, after: { x: 4 } });
    expect(states.get(3)).toEqual({ before: { x: 2 }, after: { x: 3 } });
    expect(states.get(5)).toEqual({ before: { x: 4 }, after: null });
    expect(states.has(2)).toBe(false);
    expect(readStates("nobody", history).size).toBe(0);
  });

  test("contain what somebody has edited in between", () => {
    const history = [point("c", "b", 3, "r1", { x: 9, y: 1 }), point("b", "a", 2, null, { x: 9 }), point("a", null, 1, "r1", { x: 1 })];
    const states = readStates("r1", history);
    expect(states.get(3)).toEqual({ before: { x: 9 }, after: { x: 9, y: 1 } });
    expect(states.get(1)?.after).toEqual({ x: 1 });
  });
});

test("a change of a list that has grown is what was appended", () => {
  expect(changesOf({ seen: [1], n: 1, same: [] }, { seen: [1, 2], n: 2, same: [] })).toEqual({ seen: [2], n: 2 });
  expect(changesOf({ seen: [1, 2] }, { seen: [2, 1] })).toEqual({ seen: [2, 1] });
});

test("fields that differ are named, also those that are missing on one side", () => {
  expect(fieldsThatDiffer({ a: 1, b: 2 }, { b: 3, c: 4 })).toEqual(["a", "b", "c"]);
  expect(fieldsThatDiffer(null, { a: 1 })).toEqual([]);
});
