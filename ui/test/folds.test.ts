import { describe, expect, test } from "vitest";
import type { DrawnEdge, DrawnNode } from "../src/api/types";
import type { Status } from "../src/parts/glyphs";
import { type FoldedDrawing, foldChains, MOST_NODES, unfoldEdge } from "../src/views/run/graph/folds";
import { layOut } from "../src/views/run/graph/layout";
import { viewChain } from "../src/views/run/graph/nodes";
import type { OpenDrawing } from "../src/views/run/graph/subgraphs";
import type { Visit } from "../src/views/run/model";

const node = (id: string): DrawnNode => ({ id, label: id, kind: id === "__start__" ? "start" : id === "__end__" ? "end" : "node" });
const edge = (text: string, kind: DrawnEdge["kind"] = "plain", label = ""): DrawnEdge => {
  const [source = "", target = ""] = text.split(" ");
  return { source, target, kind, label };
};

function draw(edges: DrawnEdge[]): OpenDrawing {
  const ids = [...new Set(edges.flatMap(({ source, target }) => [source, target]))];
  return { nodes: ids.map(node), edges, frames: [] };
}

const row = (prefix: string, count: number): DrawnEdge[] => Array.from({ length: count - 1 }, (_, index) => edge(`${prefix}${index} ${prefix}${index + 1}`));
const ids = (drawing: FoldedDrawing): string[] => drawing.nodes.map(({ id }) => id);
const lines = (drawing: FoldedDrawing): string[] => drawing.edges.map(({ source, target }) => `${source} ${target}`);

describe("chains of a large graph", () => {
  /** Start, a chain of 40, a choice between a chain of 30 and a single node, a join, and the end. */
  const large = draw([edge("__start__ a0"), ...row("a", 40), edge("a39 b0", "conditional", "yes"), edge("a39 c", "conditional", "no"), ...row("b", 30), edge("b29 d"), edge("c d"), edge("d __end__")]);
  const folded = foldChains(large, []);

  test("become one node each, between the same neighbours", () => {
    expect(ids(folded)).toEqual(["__start__", "chain:a0", "chain:b0", "c", "d", "__end__"]);
    expect(lines(folded)).toEqual(["__start__ chain:a0", "chain:a0 chain:b0", "chain:a0 c", "chain:b0 d", "c d", "d __end__"]);
    expect(folded.edges.map(({ label }) => label)).toContain("yes");
    expect(folded.nodes[1]?.label).toBe("40 steps");
    expect([...folded.chains.values()].flat().length).toBe(70);
  });

  test("stay as they are in a small graph", () => {
    const small = draw([edge("__start__ a0"), ...row("a", MOST_NODES - 2), edge(`a${MOST_NODES - 3} __end__`)]);
    expect(small.nodes.length).toBe(MOST_NODES);
    expect(ids(foldChains(small, []))).toEqual(small.nodes.map(({ id }) => id));
  });

  test("can be opened, and then have a frame with a sign to close it", () => {
    const opened = foldChains(large, ["chain:b0"]);
    expect(ids(opened)).toContain("b17");
    expect(ids(opened)).toContain("chain:a0");
    expect(opened.frames).toEqual([{ id: "chain:b0", name: "30 steps", members: Array.from({ length: 30 }, (_, index) => `b${index}`) }]);
    const sized = opened.nodes.map(({ id }) => ({ id, width: 136, height: 44 }));
    const [frame] = layOut(sized, opened.edges, opened.frames).frames;
    const layout = layOut(sized, opened.edges, opened.frames);
    expect(frame && frame.x >= 0 && frame.x + frame.width <= layout.width && frame.y >= 0 && frame.y + frame.height <= layout.height).toBe(true);
  });

  test("do not run through forks, joins, choices, loops and frames", () => {
    const short = row("z", MOST_NODES + 5);
    const fork = draw([...short, edge(`z${MOST_NODES + 4} f`), edge("f g"), edge("f h"), edge("g i"), edge("h i"), edge("i j")]);
    expect(ids(foldChains(fork, []))).toEqual(["chain:z0", "g", "h", "i", "j"]);
    const choice = draw([...row("a", 40), edge("a39 b0", "conditional"), ...row("b", 40)]);
    expect(ids(foldChains(choice, []))).toEqual(["chain:a0", "chain:b0"]);
    const loop = draw([...row("a", 70), edge("a69 a0", "conditional")]);
    expect(lines(foldChains(loop, []))).toEqual(["chain:a0 chain:a0"]);
    const framed = { ...draw(row("a", 70)), frames: [{ id: "sub", name: "sub", members: ["a30", "a31"] }] };
    expect(ids(foldChains(framed, []))).toEqual(["chain:a0", "a30", "a31", "chain:a32"]);
  });

  test("keep the real ends of their edges, by which one sees what was taken", () => {
    const real = folded.edges.map((each) => unfoldEdge(each, folded.chains)).map(({ source, target }) => `${source} ${target}`);
    expect(real).toEqual(["__start__ a0", "a39 b0", "a39 c", "b29 d", "c d", "d __end__"]);
  });
});

describe("a folded chain", () => {
  const visit = (name: string, status: Status): Visit => ({ key: `${name}.1`, name, status, tasks: [], counts: {} }) as unknown as Visit;
  const view = (...statuses: (Status | null)[]) => viewChain(node("chain:a"), statuses.map((status, index) => ({ name: `a${index}`, visits: status ? [visit(`a${index}`, status)] : [] })));

  test("has the status of the step that asks most for a look, and names it", () => {
    expect([view("completed", "failed", null).status, view("completed", "failed", null).hot]).toEqual(["failed", "a1"]);
    expect([view("completed", "waiting", "running").status, view("completed", "waiting", "running").hot]).toEqual(["waiting", "a1"]);
    expect([view("completed", "running", null).meta, view("completed", "running", null).visit?.name]).toEqual(["1 of 3 done", "a1"]);
  });

  test("is done when all of its steps are, and pending before the first", () => {
    expect([view("completed", "skipped", "completed").status, view("completed", "completed").meta]).toEqual(["completed", "2 done"]);
    expect([view(null, null, null).status, view(null, null, null).visit, view(null, null, null).meta]).toEqual(["pending", null, "has not run"]);
  });
});
