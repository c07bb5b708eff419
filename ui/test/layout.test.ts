import { describe, expect, test } from "vitest";
import { type EdgeIn, layOut, type Layout, type Placed, type Point, toPath } from "../src/views/run/graph/layout";
import { findBackEdges } from "../src/views/run/graph/order";
import { openInPlace } from "../src/views/run/graph/subgraphs";
import type { DrawnEdge, DrawnNode, GraphDescription } from "../src/api/types";

const edge = (text: string, kind: EdgeIn["kind"] = "plain", label = ""): EdgeIn => {
  const [source = "", target = ""] = text.split(" ");
  return { source, target, kind, label };
};

function draw(edges: EdgeIn[], width = 136, height = 44): Layout {
  const ids = [...new Set(edges.flatMap(({ source, target }) => [source, target]))];
  return layOut(ids.map((id) => ({ id, width, height })), edges);
}

const MIGRATION = [
  edge("start discover"),
  edge("discover assess"),
  edge("assess plan"),
  edge("plan assess", "conditional", "risk > 7"),
  edge("plan migrate", "conditional"),
  edge("plan copy", "conditional"),
  edge("plan book", "conditional"),
  edge("migrate verify", "join"),
  edge("copy verify", "join"),
  edge("book verify", "join"),
  edge("verify migrate", "conditional", "drift > 0"),
  edge("verify cutover", "conditional", "drift = 0"),
  edge("cutover end"),
];

const node = (layout: Layout, id: string): Placed => layout.nodes.get(id) as Placed;
const route = (layout: Layout, source: string, target: string) => {
  const found = layout.edges.find(({ edge: each }) => each.source === source && each.target === target);
  if (!found) throw new Error(`there is no edge from ${source} to ${target}`);
  return found;
};

describe("a drawing", () => {
  const layout = draw(MIGRATION);

  test("has no two nodes on the same place", () => {
    const nodes = [...layout.nodes.values()];
    for (const a of nodes) {
      for (const b of nodes) {
        if (a === b) continue;
        const isApart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
        expect(isApart, `${a.id} and ${b.id}`).toBe(true);
      }
    }
  });

  test("has edges that run along right angles only", () => {
    for (const { points, edge: each } of layout.edges) {
      points.forEach(([x, y], index) => {
        const next = points[index + 1];
        if (next) expect(Math.abs(next[0] - x) < 0.01 || Math.abs(next[1] - y) < 0.01, `${each.source} to ${each.target}`).toBe(true);
      });
    }
  });

  test("has edges that begin and end at their nodes", () => {
    for (const { points, edge: each, isBack } of layout.edges) {
      if (each.kind === "join" || isBack) continue;
      const [from, to] = [points[0] as Point, points[points.length - 1] as Point];
      expect(from[1]).toBeCloseTo(node(layout, each.source).y + 44);
      expect(to[1]).toBeCloseTo(node(layout, each.target).y);
      expect(to[0]).toBeCloseTo(node(layout, each.target).x + 68);
    }
  });

  test("has edges that cross no node", () => {
    for (const { points, edge: each } of layout.edges) {
      for (const box of layout.nodes.values()) {
        if (box.id === each.source || box.id === each.target) continue;
        points.forEach((point, index) => {
          const next = points[index + 1];
          if (next) expect(isInside(point, next, box), `${each.source} to ${each.target} through ${box.id}`).toBe(false);
        });
      }
    }
  });

  test("stays within its size, with its labels", () => {
    for (const { points } of layout.edges) for (const [x, y] of points) expect(x >= 0 && y >= 0 && x <= layout.width && y <= layout.height).toBe(true);
  });

  test("takes a loop up a lane at the right of all nodes that it passes", () => {
    const { points, isBack } = route(layout, "plan", "assess");
    expect(isBack).toBe(true);
    const lane = Math.max(...points.map(([x]) => x));
    for (const id of ["plan", "assess"]) expect(lane).toBeGreaterThanOrEqual(node(layout, id).x + 136 + 12);
  });

  test("lets branches that are joined meet at one bar, each at its own place", () => {
    expect(layout.bars).toHaveLength(1);
    const ends = ["migrate", "copy", "book"].map((id) => route(layout, id, "verify").points.at(-1) as Point);
    expect(new Set(ends.map(([x]) => Math.round(x))).size).toBe(3);
    for (const [, y] of ends) expect(y).toBeCloseTo((layout.bars[0]?.y ?? 0) - 2);
  });
});

/** Return whether a line along an axis passes through the inside of a box. */
function isInside([ax, ay]: Point, [bx, by]: Point, box: Placed): boolean {
  const [left, right] = [Math.min(ax, bx), Math.max(ax, bx)];
  const [top, bottom] = [Math.min(ay, by), Math.max(ay, by)];
  return right > box.x + 1 && left < box.x + box.width - 1 && bottom > box.y + 1 && top < box.y + box.height - 1;
}

test("a loop to itself leaves and enters at the right", () => {
  const { points } = route(draw([edge("a b"), edge("b b")]), "b", "b");
  expect(points[0]?.[0]).toBe(points.at(-1)?.[0]);
});

test("loops within loops have lanes beside each other", () => {
  const layout = draw([edge("a b"), edge("b c"), edge("c d"), edge("c b", "conditional"), edge("d a", "conditional")]);
  const lane = (source: string, target: string): number => Math.max(...route(layout, source, target).points.map(([x]) => x));
  expect(Math.abs(lane("d", "a") - lane("c", "b"))).toBeGreaterThanOrEqual(12);
});

test("an edge that skips a rank goes around what stands there", () => {
  const layout = draw([edge("judge rank", "conditional"), edge("judge write", "conditional"), edge("rank write")]);
  const box = node(layout, "rank");
  const { points } = route(layout, "judge", "write");
  points.forEach((point, index) => points[index + 1] && expect(isInside(point, points[index + 1] as Point, box)).toBe(false));
});

test("edges to nodes that are not drawn are left out, and an empty graph is an empty drawing", () => {
  expect(layOut([{ id: "a", width: 10, height: 10 }], [edge("a gone")]).edges).toEqual([]);
  expect(layOut([], []).nodes.size).toBe(0);
});

test("a graph of 400 nodes is drawn without recursion that is too deep", () => {
  const edges = Array.from({ length: 399 }, (_, index) => edge(`n${index} n${index + 1}`));
  expect(findBackEdges(["n0"], []).size).toBe(0);
  expect(findBackEdges(edges.flatMap(({ source, target }) => [source, target]), edges).size).toBe(0);
});

test("a path has a corner of the radius, or less where there is no room", () => {
  expect(toPath([[0, 0], [0, 100], [50, 100]])).toBe("M0 0L0 92Q0 100 8 100L50 100");
  expect(toPath([[0, 0], [0, 4], [50, 4]])).toBe("M0 0L0 2Q0 4 8 4L50 4");
});

test("a subgraph that is open stands in place of its box, with the edges of the box", () => {
  const drawn = (id: string, kind: DrawnNode["kind"] = "node"): DrawnNode => ({ id, label: id, kind });
  const line = (text: string): DrawnEdge => edge(text);
  const graph = { nodes: [drawn("a"), drawn("box", "subgraph"), drawn("b")], edges: [line("a box"), line("box b")] } as GraphDescription;
  const diagram = {
    nodes: [drawn("a"), drawn("box:__start__", "start"), drawn("box:x"), drawn("box:y"), drawn("box:__end__", "end"), drawn("b")],
    edges: [line("a box:__start__"), line("box:__start__ box:x"), line("box:x box:y"), line("box:y box:__end__"), line("box:__end__ b")],
  };
  const open = openInPlace(graph, diagram, ["box"]);
  expect(open.nodes.map(({ id }) => id)).toEqual(["a", "box/x", "box/y", "b"]);
  expect(open.edges.map(({ source, target }) => `${source} ${target}`)).toEqual(["a box/x", "box/y b", "box/x box/y"]);
  expect(open.frames).toEqual([{ id: "box", name: "box", members: ["box/x", "box/y"] }]);
  expect(openInPlace(graph, diagram, ["a", "gone"]).nodes).toEqual(graph.nodes);
});
