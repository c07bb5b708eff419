import { describe, expect, test } from "vitest";
import type { Diagram, DrawnEdge, InnerStep, Step } from "../src/api/types";
import { timesTaken } from "../src/views/run/graph/edges";
import { readInner } from "../src/views/run/graph/inner";
import { innerOf } from "../src/views/run/graph/subgraphs";
import { findVisit, gather, readAgents, type Visit } from "../src/views/run/model";

const at = (second: number): string => new Date(second * 1000).toISOString();

function visit(name: string, superstep: number, ids: string[] = [`${name}-${superstep}`]): Visit {
  const tasks = ids.map((id, position) => ({ step: { id, stepName: name, superstep, position, startedAt: at(superstep * 10), completedAt: at(superstep * 10 + 9) } as Step, status: "completed" as const, attempts: [] }));
  return { ...gather(tasks), key: `${name}.${superstep}`, name, superstep };
}

function inner(path: string, superstep: number, from: number, change: Partial<InnerStep> = {}): InnerStep {
  return { id: `${path} ${superstep} ${from}`, parentId: null, path: path.split("/"), superstep, status: "completed", agent: null, startedAt: at(from), endedAt: at(from + 1), attempts: [], calls: [], ...change };
}

/** A box that was visited twice; in it a choice, and a subgraph below. */
const visits = [visit("discover", 1), visit("assess", 2), visit("plan", 3), visit("assess", 4)];
const steps = new Map([
  ["assess-2", [inner("assess/inventory", 1, 20), inner("assess/weigh", 2, 21), inner("assess/dig", 3, 22), inner("assess/dig/open", 1, 22, { parentId: "dig" }), inner("assess/dig/read", 2, 23, { parentId: "dig" })]],
  ["assess-4", [inner("assess/inventory", 1, 40), inner("assess/weigh", 2, 41, { status: "failed", attempts: [{ number: 1, startedAt: at(41), endedAt: at(42), error: { message: "no weights" }, retryAt: null }] })]],
]);
const found = readInner(visits, steps, (each) => each.name);
const all = new Map<string, Visit[]>([["discover", [visits[0] as Visit]], ["assess", [visits[1] as Visit, visits[3] as Visit]], ["plan", [visits[2] as Visit]], ...found]);
const edge = (source: string, target: string): DrawnEdge => ({ source, target, kind: "conditional", label: "" });
const times = (source: string, target: string): number => timesTaken(edge(source, target), all, true, false).times;

describe("the steps inside subgraphs", () => {
  test("are visits of the nodes that are drawn when their box is open", () => {
    expect([...found.keys()].sort()).toEqual(["assess/dig", "assess/dig:open", "assess/dig:read", "assess/inventory", "assess/weigh"]);
    expect(found.get("assess/weigh")?.map(({ key, status, parent }) => [key, status, parent])).toEqual([
      ["assess.2/weigh.2", "completed", "assess.2"],
      ["assess.4/weigh.2", "failed", "assess.4"],
    ]);
    expect(found.get("assess/weigh")?.[1]?.tasks[0]?.step.error?.message).toBe("no weights");
  });

  test("of a fan-out are one visit with many tasks", () => {
    const fan = visit("assess", 2, ["a", "b", "c"]);
    const tools = readInner([fan], new Map([["a", [inner("assess/tool", 2, 20), inner("assess/tool", 2, 21, { status: "running", endedAt: null })]], ["c", [inner("assess/tool", 2, 20)]]]), () => "assess").get("assess/tool");
    expect(tools?.map(({ tasks, status, counts, endedAt }) => [tasks.length, status, counts.done, endedAt])).toEqual([[3, "running", 2, null]]);
  });

  test("try again between two attempts", () => {
    const error = { message: "x" };
    const waiting = inner("assess/weigh", 1, 20, { status: "running", endedAt: null, attempts: [{ number: 1, startedAt: at(20), endedAt: at(21), error, retryAt: new Date(Date.now() + 60_000).toISOString() }] });
    expect(readInner([visit("assess", 2)], new Map([["assess-2", [waiting]]]), () => "assess").get("assess/weigh")?.[0]?.status).toBe("retrying");
  });

  test("say which edges were taken: within a box, into it and out of it", () => {
    expect([times("assess/inventory", "assess/weigh"), times("assess/inventory", "assess/skip"), times("assess/weigh", "assess/dig:open"), times("assess/dig:open", "assess/dig:read")]).toEqual([2, 0, 1, 1]);
    expect([times("discover", "assess/inventory"), times("discover", "assess/skip"), times("assess/dig:read", "plan"), times("assess/skip", "plan"), times("plan", "assess/inventory")]).toEqual([1, 0, 1, 0, 1]);
  });

  test("belong to the visit of their box in addresses", () => {
    expect(["assess.4/weigh.2", "assess.4", "assess.41/weigh.2", null].map((key) => findVisit(key, visits)?.key)).toEqual(["assess.4", "assess.4", undefined, undefined]);
  });
});

test("a subgraph within a subgraph is drawn without its own beginning and end", () => {
  const line = (source: string, target: string): DrawnEdge => ({ source, target, kind: "plain", label: "" });
  const ids = ["box:__start__", "box:a", "box:deep:__start__", "box:deep:x", "box:deep:__end__", "box:__end__"];
  const diagram: Diagram = { nodes: ids.map((id) => ({ id, label: id, kind: "node" })), edges: ids.slice(1).map((id, index) => line(ids[index] as string, id)) };
  const drawn = innerOf(diagram, "box");
  expect(drawn?.nodes.map(({ id }) => id)).toEqual(["__start__", "a", "deep:x", "__end__"]);
  expect(drawn?.edges.map(({ source, target }) => `${source} ${target}`)).toEqual(["__start__ a", "a deep:x", "deep:x __end__"]);
});

test("the agent that a step calls is known from its first event", () => {
  const events = [{ eventType: "STEP_STARTED", stepRunId: "s1", payload: { agent: "Planner" } }, { eventType: "STEP_STARTED", stepRunId: "s2", payload: {} }];
  expect([...readAgents(events as never)]).toEqual([["s1", "Planner"]]);
});
