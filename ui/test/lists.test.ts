import { describe, expect, test } from "vitest";
import { SseParser } from "../src/api/sse";
import type { Checkpoint, RunEvent, Step } from "../src/api/types";
import { formatCount, formatDuration, formatCost, shortId } from "../src/format";
import { hrefOf, readAddress } from "../src/router";
import { readAttempts, readPauses, readVisits } from "../src/views/run/model";
import { applyEvents } from "../src/views/run/store";
import { findFolds, Scale, ticksOf } from "../src/views/run/waterfall/time";
import { filterQuery, toApiQuery, toFilterBody, toPeriod } from "../src/views/runs/filters";
import { MOST_ROWS, pagesOf, windowAt } from "../src/views/runs/windowing";
import { findParting, toTree } from "../src/views/threads/tree";

describe("a window of rows", () => {
  test("covers what is visible, and never has too many rows", () => {
    for (const height of [200, 900, 1440, 4000]) {
      for (const top of [-50, 0, 17, 36_000, 3_599_000, 9_999_999]) {
        const { first, end } = windowAt(top, height, 36, 100_000);
        expect(end - first).toBeLessThanOrEqual(MOST_ROWS);
        expect(first).toBeGreaterThanOrEqual(0);
        expect(end).toBeLessThanOrEqual(100_000);
        const seen = Math.min(Math.max(0, Math.floor(top / 36)), 100_000 - 1);
        expect(first <= seen && seen < end).toBe(true);
      }
    }
  });

  test("of a short list is the list", () => {
    expect(windowAt(0, 900, 36, 3)).toEqual({ first: 0, end: 3 });
    expect(windowAt(0, 900, 36, 0)).toEqual({ first: 0, end: 0 });
  });

  test("needs the pages that its rows are on", () => {
    expect(pagesOf({ first: 0, end: 50 }, 100)).toEqual([1]);
    expect(pagesOf({ first: 90, end: 140 }, 100)).toEqual([1, 2]);
    expect(pagesOf({ first: 100, end: 100 }, 100)).toEqual([]);
  });
});

describe("filters", () => {
  const now = Date.parse("2026-11-27T12:00:00Z");

  test("become the parameters of the API, and the body of a change of all", () => {
    const filter = filterQuery(new URLSearchParams("tag=b&status=failed&status=waiting&since=24h&metadata=customer:acme:eu&sort=createdAt&text=x"));
    const query = toApiQuery(filter, now);
    expect(query.getAll("status")).toEqual(["failed", "waiting"]);
    expect(query.get("createdFrom")).toBe("2026-11-26T12:00:00.000Z");
    expect(query.get("metadata.customer")).toBe("acme:eu");
    expect(query.has("sort")).toBe(false);
    expect(toFilterBody(query)).toEqual({ status: ["failed", "waiting"], createdFrom: "2026-11-26T12:00:00.000Z", tags: ["b"], metadata: { customer: "acme:eu" }, text: "x" });
  });

  test("that are equal have equal texts, in whatever order they stand", () => {
    expect(filterQuery(new URLSearchParams("tag=b&tag=a&status=x")).toString()).toBe(filterQuery(new URLSearchParams("status=x&tag=a&tag=b")).toString());
  });

  test("leave the last day to the strip of time unless they name a period", () => {
    expect(toPeriod(new URLSearchParams("status=failed"), now).get("from")).toBe("2026-11-26T12:00:00.000Z");
    expect(toPeriod(new URLSearchParams("from=2026-11-01T00:00:00Z"), now).get("from")).toBe("2026-11-01T00:00:00Z");
  });
});

describe("server-sent events", () => {
  const stream = ": hi\n\nevent: STEP\ndata: {\"a\":1}\nid: 4\n\nevent: message\r\ndata: x\r\n\r\n";

  test("are the same however the stream is cut", () => {
    const whole = new SseParser().push(stream);
    expect(whole).toEqual([
      { event: "STEP", data: '{"a":1}', id: "4" },
      { event: "message", data: "x", id: null },
    ]);
    const parser = new SseParser();
    expect([...stream.replaceAll("\r\n", "\n")].flatMap((letter) => parser.push(letter))).toEqual(whole);
  });
});

describe("a run", () => {
  const at = (second: number): string => new Date(1_000_000 + second * 1000).toISOString();
  const event = (seq: number, eventType: string, second: number, payload: RunEvent["payload"] = {}, stepRunId = "s1"): RunEvent => ({ id: String(seq), seq, workflowRunId: "r", stepRunId, eventType, payload, createdAt: at(second) });
  const step = (change: Partial<Step>): Step => ({ id: "s1", workflowRunId: "r", stepName: "charge", stepType: "node", status: "running", attempt: 1, superstep: 1, position: 0, output: null, error: null, waitUntil: null, signalType: null, startedAt: at(0), completedAt: null, ...change });

  test("has the attempts at a step, with the time of the next one", () => {
    const attempts = readAttempts([
      event(1, "STEP_STARTED", 0),
      event(2, "STEP_FAILED", 5, { attempt: 1, error: { message: "no answer" } }),
      event(3, "STEP_RETRY_SCHEDULED", 5, { attempt: 2, at: at(7) }),
      event(4, "STEP_FAILED", 9, { attempt: 2, error: { message: "no answer" } }),
      event(5, "STEP_RETRY_SCHEDULED", 9, { attempt: 3, at: at(13) }),
      event(6, "STEP_COMPLETED", 14),
    ]).get("s1");
    expect(attempts?.map(({ number, startedAt, endedAt, error }) => [number, startedAt, endedAt, error?.message ?? null])).toEqual([
      [1, Date.parse(at(0)), Date.parse(at(5)), "no answer"],
      [2, Date.parse(at(7)), Date.parse(at(9)), "no answer"],
      [3, Date.parse(at(13)), Date.parse(at(14)), null],
    ]);
  });

  test("tries again between two attempts, and runs once the time has come", () => {
    const attempts = readAttempts([event(1, "STEP_STARTED", 0), event(2, "STEP_FAILED", 5, { error: { message: "x" } }), event(3, "STEP_RETRY_SCHEDULED", 5, { at: at(7) })]);
    const status = (second: number) => readVisits([step({})], attempts, [], Date.parse(at(second)))[0]?.status;
    expect([status(6), status(8)]).toEqual(["retrying", "running"]);
  });

  test("has one visit for all tasks of a fan-out, and what failed says it all", () => {
    const tasks = ["completed", "completed", "failed", "running"].map((status, position) => step({ id: `s${position}`, status: status as Step["status"], position }));
    const stopped = step({ id: "s9", position: 9, status: "failed", error: { message: "stopped", code: "STOPPED" } });
    const [visit, ...others] = readVisits([...tasks, stopped], new Map(), [], 0);
    expect(others).toEqual([]);
    expect([visit?.key, visit?.status, visit?.counts.done, visit?.counts.failed, visit?.counts.stopped, visit?.endedAt]).toEqual(["charge.1", "failed", 2, 1, 1, null]);
  });

  test("waits from a question until its answer", () => {
    const pauses = readPauses([event(1, "STEP_STARTED", 0), event(2, "STEP_WAITING", 2), event(3, "SIGNAL_RECEIVED", 60), event(4, "STEP_WAITING", 61)]);
    expect(pauses.get("s1")?.map(({ from, to }) => [from, to])).toEqual([
      [Date.parse(at(2)), Date.parse(at(60))],
      [Date.parse(at(61)), null],
    ]);
  });

  test("changes by its events, and only the steps that they name", () => {
    const steps = [step({}), step({ id: "s2" })];
    const after = applyEvents(steps, [event(9, "STEP_COMPLETED", 3), event(10, "LLM_CALL_COMPLETED", 3)]);
    expect(after.map(({ status, completedAt }) => [status, completedAt])).toEqual([["completed", at(3)], ["running", null]]);
    expect(after[1]).toBe(steps[1]);
  });
});

describe("the history of a thread", () => {
  const point = (id: string, parent: string | null, branch: string, second: number, values = {}): Checkpoint => ({ threadId: "t", checkpointId: id, parentCheckpointId: parent, branch, values, sizeBytes: 2, next: [], metadata: { step: second }, createdAt: new Date(second * 1000).toISOString(), tasks: [] });
  const history = [point("d", "b", "fork", 4, { x: 1 }), point("c", "b", "main", 3, { x: 2, y: 1 }), point("b", "a", "main", 2, { x: 1 }), point("a", null, "main", 1)];

  test("is a tree with a lane for each branch", () => {
    const tree = toTree(history);
    expect(tree.branches.map(({ name, lane }) => [name, lane])).toEqual([["main", 0], ["fork", 1]]);
    expect(tree.nodes.map(({ id, row, forkedFrom }) => [id, row, forkedFrom])).toEqual([["a", 1, null], ["b", 2, null], ["c", 3, null], ["d", 5, "b"]]);
    expect(tree.nodes[2]?.counts).toEqual({ add: 1, mod: 1, del: 0 });
  });

  test("knows where two checkpoints part", () => {
    expect(findParting(history, "c", "d")?.checkpointId).toBe("b");
    expect(findParting(history, "a", "c")?.checkpointId).toBe("a");
    expect(findParting(history, "a", "gone")).toBeNull();
  });
});

describe("addresses", () => {
  test("are read as they are written", () => {
    const href = hrefOf(["runs", "a/b ü"], { step: "plan.3", open: ["x", "y"], none: null, empty: "" });
    const url = new URL(href, "http://localhost");
    const { path, query } = readAddress(url.pathname, url.search);
    expect([path, query.get("step"), query.getAll("open"), query.has("none"), query.has("empty")]).toEqual([["runs", "a/b ü"], "plan.3", ["x", "y"], false, false]);
    expect(readAddress("/ui/100%", "").path).toEqual(["100%"]);
  });
});

test("times and numbers are short", () => {
  expect([0.004, 0.3, 12.34, 59.97, 3600, 90_000].map(formatDuration)).toEqual(["4 ms", "0.3 s", "12.3 s", "1:00", "1:00:00", "1 d 1 h"]);
  expect([7, 999, 1000, 1_234_567].map(formatCount)).toEqual(["7", "999", "1\u202f000", "1\u202f234\u202f567"]);
  expect([0, 0.000114, 0.84, 1234.5].map(formatCost)).toEqual(["–", "$0.00011", "$0.84", "$1\u202f234.50"]);
  expect(shortId("run_01a21b7dfd6c70008000de713b5d97bd")).toBe("run_1b7dfd6c");
});

test("ticks are round, and at most six", () => {
  for (const seconds of [0.03, 1, 7, 59, 600, 86_400, 3_000_000]) {
    const ticks = ticksOf({ from: 1000, to: 1000 + seconds * 1000 }, 1000);
    expect(ticks.length).toBeLessThanOrEqual(6);
    expect(ticks.length).toBeGreaterThanOrEqual(2);
  }
});

describe("the axis of a waterfall", () => {
  const span = { from: 0, to: 100_000 };

  test("folds times in which nothing works, if they are long", () => {
    expect(findFolds(span, [{ from: 0, to: 5_000 }, { from: 4_000, to: 10_000 }, { from: 12_000, to: 15_000 }, { from: 80_000, to: 90_000 }])).toEqual([{ from: 15_000, to: 80_000 }]);
    expect(findFolds(span, [{ from: 0, to: 100_000 }])).toEqual([]);
    expect(findFolds(span, [{ from: 0, to: 10_000 }])).toEqual([{ from: 10_000, to: 100_000 }]);
  });

  test("keeps the order of times, and gives a time back for its place", () => {
    const scale = new Scale(span, [{ from: 15_000, to: 80_000 }]);
    const places = [0, 10_000, 15_000, 40_000, 80_000, 95_000, 100_000].map((at) => scale.place(at));
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places[0]).toBe(0);
    expect(places.at(-1)).toBeCloseTo(100);
    for (const at of [1_000, 14_000, 50_000, 90_000]) expect(scale.timeAt(scale.place(at))).toBeCloseTo(at);
  });

  test("has no ticks within a fold", () => {
    const ticks = new Scale(span, [{ from: 15_000, to: 80_000 }]).ticks(0);
    expect(ticks.every(({ at }) => at <= 15_000 || at >= 80_000)).toBe(true);
    expect(ticks.length).toBeGreaterThan(1);
  });
});
