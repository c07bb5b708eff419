/* Where nodes and edges of a graph are drawn.

   dagre finds ranks and the order within them. The edges are our own: they run along right angles, with round corners. An
   edge that skips ranks goes straight down the column that dagre keeps free for it. Branches that are joined meet at a bar,
   from which one arrow leaves, so that nobody has to count arrows to see what waits for what. An edge that closes a loop
   leaves its node at the right, goes up a lane of its own, and enters its target at the right: drawn by dagre it would lie
   upon the edges that go down, and vanish. */

import { Graph, layout as runDagre } from "@dagrejs/dagre";
import { findBackEdges } from "./order";

export type Point = [number, number];

export interface Box {
  id: string;
  width: number;
  height: number;
}

export interface EdgeIn {
  source: string;
  target: string;
  kind: "plain" | "conditional" | "declared" | "join";
  label: string;
}

export interface Placed {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
  rank: number;
}

export interface Routed {
  edge: EdgeIn;
  points: Point[];
  /** False for the branch of a join: it ends at the bar. */
  hasTip: boolean;
  isBack: boolean;
  label: { at: Point; anchor: "start" | "end" | "middle" } | null;
}

export interface Bar {
  target: string;
  x: number;
  y: number;
  width: number;
}

/** Nodes with a frame around them: what is open in place. */
export interface Group {
  id: string;
  name: string;
  members: string[];
}

export interface PlacedGroup extends Group {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Layout {
  frames: PlacedGroup[];
  nodes: Map<string, Placed>;
  edges: Routed[];
  bars: Bar[];
  width: number;
  height: number;
}

const NODE_GAP = 20;
const RANK_GAP = 32;
const LANE = 28;
const NEXT_LANE = 16;
const BAR_WIDTH = 72;
const BAR_STEP = 22;
const MARGIN = 8;
const PER_LETTER = 6;

export function layOut(boxes: Box[], edges: EdgeIn[], groups: Group[] = []): Layout {
  const ids = boxes.map((box) => box.id);
  const known = new Set(ids);
  const drawn = edges.filter((edge) => known.has(edge.source) && known.has(edge.target));
  const back = findBackEdges(ids, drawn);
  const joins = findJoins(drawn, back);
  const dagre = arrange(boxes, drawn, back, joins);

  const nodes = new Map<string, Placed>();
  for (const box of boxes) {
    const { x, y } = dagre.node(box.id) as { x: number; y: number };
    nodes.set(box.id, { id: box.id, x: x - box.width / 2, y: y - box.height / 2, width: box.width, height: box.height, rank: 0 });
  }
  const bars = [...joins].map(([target]) => {
    const { y } = dagre.node(barId(target)) as { y: number };
    const node = nodes.get(target) as Placed;
    return { target, x: node.x + node.width / 2, y, width: BAR_WIDTH };
  });
  const ranks = findRanks([...nodes.values()], bars);
  const edgesOut = drawn.map((edge, index) => (back.has(index) ? null : routeDown(edge, index, dagre, nodes, bars, joins, ranks)));
  const lanes = new Lanes([...nodes.values()], edgesOut.filter((route) => route !== null));
  const routed = drawn.map((edge, index) => edgesOut[index] ?? lanes.route(edge));
  const tips = bars.map((bar) => tipOf(bar, nodes));
  return crop(nodes, [...routed, ...tips], bars, groups);
}

function barId(target: string): string {
  return `join of ${target}`;
}

/** Return the edges of each join with more than one branch, by its target. */
function findJoins(edges: EdgeIn[], back: Set<number>): Map<string, number[]> {
  const joins = new Map<string, number[]>();
  edges.forEach((edge, index) => {
    if (edge.kind === "join" && !back.has(index)) joins.set(edge.target, [...(joins.get(edge.target) ?? []), index]);
  });
  for (const [target, branches] of joins) if (branches.length < 2) joins.delete(target);
  return joins;
}

function arrange(boxes: Box[], edges: EdgeIn[], back: Set<number>, joins: Map<string, number[]>): Graph {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: NODE_GAP, ranksep: RANK_GAP, edgesep: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  // dagre sets what was added last to the left: so everything is added backwards, to stand in the order of the definition.
  for (const box of [...boxes].reverse()) graph.setNode(box.id, { width: box.width, height: box.height });
  for (const target of joins.keys()) {
    graph.setNode(barId(target), { width: BAR_WIDTH, height: 3 });
    graph.setEdge(barId(target), target, { weight: 4 }, "bar");
  }
  for (const [index, edge] of [...edges.entries()].reverse()) {
    if (back.has(index)) continue;
    const isBranch = joins.get(edge.target)?.includes(index);
    const width = edge.label ? Math.min(edge.label.length * PER_LETTER, 120) : 0;
    graph.setEdge(edge.source, isBranch ? barId(edge.target) : edge.target, { width, height: width ? 12 : 0, labelpos: "r", weight: edge.kind === "plain" ? 2 : 1 }, String(index));
  }
  runDagre(graph);
  return graph;
}

interface Rank {
  top: number;
  bottom: number;
}

/** Return the ranks from top to bottom, as the heights that nodes take. */
function findRanks(nodes: Placed[], bars: Bar[]): Rank[] {
  const spans = [...nodes.map((node) => ({ middle: node.y + node.height / 2, top: node.y, bottom: node.y + node.height })), ...bars.map((bar) => ({ middle: bar.y, top: bar.y, bottom: bar.y }))];
  spans.sort((a, b) => a.middle - b.middle);
  const ranks: (Rank & { middle: number })[] = [];
  for (const span of spans) {
    const last = ranks[ranks.length - 1];
    if (last && Math.abs(last.middle - span.middle) < 1) {
      last.top = Math.min(last.top, span.top);
      last.bottom = Math.max(last.bottom, span.bottom);
    } else ranks.push({ ...span });
  }
  for (const node of nodes) node.rank = ranks.findIndex((rank) => Math.abs(rank.middle - (node.y + node.height / 2)) < 1);
  return ranks;
}

function routeDown(edge: EdgeIn, index: number, dagre: Graph, nodes: Map<string, Placed>, bars: Bar[], joins: Map<string, number[]>, ranks: Rank[]): Routed {
  const source = nodes.get(edge.source) as Placed;
  const target = nodes.get(edge.target) as Placed;
  const branches = joins.get(edge.target);
  const isBranch = Boolean(branches?.includes(index));
  const bar = isBranch ? bars.find((found) => found.target === edge.target) : undefined;
  const from: Point = [source.x + source.width / 2, source.y + source.height];
  const to: Point = bar && branches ? [barX(bar, edge, branches.length, dagre, nodes), bar.y - 2] : [target.x + target.width / 2, target.y];
  const inner = (dagre.edge({ v: edge.source, w: isBranch ? barId(edge.target) : edge.target, name: String(index) }) as { points: { x: number; y: number }[] }).points.slice(1, -1);
  const columns = columnsBetween(inner, from, to, ranks);
  const points: Point[] = [from];
  let [x, y] = from;
  for (const [nextX, turnY] of [...columns, [to[0], turnBefore(to[1], ranks, y)] as Point]) {
    if (Math.abs(nextX - x) > 1) points.push([x, turnY], [nextX, turnY]);
    [x, y] = [nextX, turnY];
  }
  points.push([x, to[1]]);
  return { edge, points: simplify(points), hasTip: !isBranch, isBack: false, label: labelDown(edge, points) };
}

/** Where a branch meets the bar: in the order of the branches from left to right, 22 apart. */
function barX(bar: Bar, edge: EdgeIn, count: number, dagre: Graph, nodes: Map<string, Placed>): number {
  const xs = (dagre.inEdges(barId(bar.target)) as { v: string }[]).map(({ v }) => ({ v, x: middleOf(nodes.get(v) as Placed) })).sort((a, b) => a.x - b.x);
  const place = xs.findIndex((item) => item.v === edge.source);
  const step = Math.min(BAR_STEP, (bar.width - 12) / Math.max(1, count - 1));
  return bar.x + (place - (xs.length - 1) / 2) * step;
}

function middleOf(node: Placed): number {
  return node.x + node.width / 2;
}

/** The columns in which an edge passes the ranks between its ends, each with the height at which it turns into it. */
function columnsBetween(inner: { x: number; y: number }[], from: Point, to: Point, ranks: Rank[]): Point[] {
  const columns: Point[] = [];
  let x = from[0];
  for (const rank of ranks) {
    if (rank.top <= from[1] || rank.bottom >= to[1]) continue;
    const point = inner.find((candidate) => candidate.y >= rank.top - 1 && candidate.y <= rank.bottom + 1);
    if (!point || Math.abs(point.x - x) < 1) continue;
    columns.push([point.x, turnBefore(rank.top, ranks, from[1])]);
    x = point.x;
  }
  return columns;
}

/** The height of the turn above `y`: in the middle of the gap between two ranks. */
function turnBefore(y: number, ranks: Rank[], atLeast: number): number {
  let bottom = atLeast;
  for (const rank of ranks) if (rank.bottom <= y - 2) bottom = Math.max(bottom, rank.bottom);
  const gap = y - bottom;
  return bottom + (gap > 24 ? Math.min(gap / 2, gap - 16) : gap / 2);
}

/** A label stands beside the longest part of its edge that goes down, on the outer side. */
function labelDown(edge: EdgeIn, points: Point[]): Routed["label"] {
  if (!edge.label) return null;
  let [x, y, longest] = [0, 0, -1];
  points.forEach(([fromX, fromY], index) => {
    const next = points[index + 1];
    const length = next && next[0] === fromX ? next[1] - fromY : -1;
    if (next && length >= longest) [x, y, longest] = [fromX, (fromY + next[1]) / 2 + 4, length];
  });
  const isLeft = x < (points[0] as Point)[0] - 1;
  return { at: [x + (isLeft ? -8 : 8), y], anchor: isLeft ? "end" : "start" };
}

function tipOf(bar: Bar, nodes: Map<string, Placed>): Routed {
  const node = nodes.get(bar.target) as Placed;
  return { edge: { source: bar.target, target: bar.target, kind: "join", label: "" }, points: [[bar.x, bar.y + 1], [bar.x, node.y]], hasTip: true, isBack: false, label: null };
}

/** The lanes at the right, one for each loop: an inner loop has an inner lane. */
class Lanes {
  private readonly taken: { x: number; top: number; bottom: number }[] = [];

  constructor(
    private readonly nodes: Placed[],
    private readonly down: Routed[],
  ) {}

  route(edge: EdgeIn): Routed {
    const find = (id: string): Placed => this.nodes.find((node) => node.id === id) as Placed;
    const source = find(edge.source);
    const target = find(edge.target);
    if (source === target) return this.routeSelf(edge, source);
    const leaves = this.isLast(source) ? ([source.x + source.width, source.y + source.height / 2] as Point) : null;
    const enters = this.isLast(target) ? ([target.x + target.width, target.y + target.height / 2] as Point) : null;
    const bottom = leaves ? leaves[1] : source.y + source.height + 10;
    const top = enters ? enters[1] : target.y - 10;
    const x = this.findLane(top, bottom);
    const start: Point[] = leaves ? [leaves] : [[source.x + source.width - 14, source.y + source.height], [source.x + source.width - 14, bottom]];
    const end: Point[] = enters ? [enters] : [[target.x + target.width - 14, top], [target.x + target.width - 14, target.y]];
    const points: Point[] = [...start, [x, bottom], [x, top], ...end];
    return { edge, points: simplify(points), hasTip: true, isBack: true, label: edge.label ? { at: [x + 8, this.labelHeight(top, bottom)], anchor: "start" } : null };
  }

  /** Labels of lanes beside each other stand at different heights. */
  private labelHeight(top: number, bottom: number): number {
    const share = [0.5, 0.75, 0.25][(this.taken.length - 1) % 3] ?? 0.5;
    return top + (bottom - top) * share + 4;
  }

  private routeSelf(edge: EdgeIn, node: Placed): Routed {
    const right = node.x + node.width;
    const middle = node.y + node.height / 2;
    const x = right + 44;
    this.taken.push({ x, top: middle - 15, bottom: middle + 15 });
    return { edge, points: [[right, middle - 15], [x, middle - 15], [x, middle + 15], [right, middle + 15]], hasTip: true, isBack: true, label: edge.label ? { at: [x + 8, middle + 4], anchor: "start" } : null };
  }

  private isLast(node: Placed): boolean {
    return !this.nodes.some((other) => other.rank === node.rank && other.x > node.x);
  }

  private findLane(top: number, bottom: number): number {
    const isWithin = (first: number, last: number): boolean => first <= bottom && last >= top;
    let x = 0;
    for (const node of this.nodes) if (isWithin(node.y, node.y + node.height)) x = Math.max(x, node.x + node.width);
    for (const route of this.down) {
      route.points.forEach(([pointX, pointY], index) => {
        const next = route.points[index + 1] ?? [pointX, pointY];
        if (isWithin(Math.min(pointY, next[1]), Math.max(pointY, next[1]))) x = Math.max(x, Math.max(pointX, next[0]) - LANE + 12);
      });
    }
    x += LANE;
    for (const lane of this.taken) if (isWithin(lane.top, lane.bottom)) x = Math.max(x, lane.x + NEXT_LANE);
    this.taken.push({ x, top, bottom });
    return x;
  }
}

/** Leave out points that lie between their neighbours. */
function simplify(points: Point[]): Point[] {
  return points.filter(([x, y], index) => {
    const before = points[index - 1];
    const after = points[index + 1];
    if (before && before[0] === x && before[1] === y) return false;
    if (!before || !after) return true;
    return !((before[0] === x && after[0] === x) || (before[1] === y && after[1] === y));
  });
}

function placeGroup(group: Group, nodes: Map<string, Placed>): PlacedGroup[] {
  const within = group.members.map((id) => nodes.get(id)).filter((node) => node !== undefined);
  if (!within.length) return [];
  const [x, y] = [Math.min(...within.map((node) => node.x)) - 16, Math.min(...within.map((node) => node.y)) - 22];
  const [right, bottom] = [Math.max(...within.map((node) => node.x + node.width)) + 16, Math.max(...within.map((node) => node.y + node.height)) + 12];
  return [{ ...group, x, y, width: right - x, height: bottom - y }];
}

/** Move everything so that it begins at the margin, and measure it, with the labels. */
function crop(nodes: Map<string, Placed>, edges: Routed[], bars: Bar[], groups: Group[]): Layout {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  const include = (x: number, y: number): void => {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  };
  for (const node of nodes.values()) {
    include(node.x, node.y - 6);
    include(node.x + node.width, node.y + node.height);
  }
  for (const { points, label, edge } of edges) {
    for (const [x, y] of points) include(x, y);
    if (label) include(label.at[0] + (label.anchor === "end" ? -1 : 1) * edge.label.length * PER_LETTER, label.at[1]);
  }
  for (const { x, y, width, height } of groups.flatMap((group) => placeGroup(group, nodes))) {
    include(x, y);
    include(x + width, y + height);
  }
  if (!nodes.size) [left, right, top, bottom] = [0, 0, 0, 0];
  const [dx, dy] = [MARGIN - left, MARGIN - top];
  for (const node of nodes.values()) [node.x, node.y] = [node.x + dx, node.y + dy];
  for (const bar of bars) [bar.x, bar.y] = [bar.x + dx, bar.y + dy];
  for (const route of edges) {
    route.points = route.points.map(([x, y]) => [x + dx, y + dy]);
    if (route.label) route.label = { ...route.label, at: [route.label.at[0] + dx, route.label.at[1] + dy] };
  }
  const frames = groups.flatMap((group) => placeGroup(group, nodes));
  return { nodes, edges, bars, frames, width: right - left + 2 * MARGIN, height: bottom - top + 2 * MARGIN };
}

/** The path of an edge with round corners, as the `d` of SVG. */
export function toPath(points: Point[], radius = 8): string {
  const parts = [`M${join(points[0] as Point)}`];
  for (let index = 1; index < points.length - 1; index += 1) {
    const [before, corner, after] = [points[index - 1], points[index], points[index + 1]] as [Point, Point, Point];
    parts.push(`L${join(toward(corner, before, radius))}Q${join(corner)} ${join(toward(corner, after, radius))}`);
  }
  parts.push(`L${join(points[points.length - 1] as Point)}`);
  return parts.join("");
}

function toward([x, y]: Point, [toX, toY]: Point, radius: number): Point {
  const length = Math.abs(toX - x) + Math.abs(toY - y);
  const share = length ? Math.min(radius, length / 2) / length : 0;
  return [x + (toX - x) * share, y + (toY - y) * share];
}

function join([x, y]: Point): string {
  return `${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10}`;
}

/** The open arrow at the end of an edge. */
export function toTip(points: Point[]): string {
  const [[ax, ay], [bx, by]] = points.slice(-2) as [Point, Point];
  const x = Math.sign(Math.round(bx - ax));
  const y = Math.sign(Math.round(by - ay));
  if (y) return `M${join([bx, by])}m-4 ${-5 * y} 4 ${5 * y} 4 ${-5 * y}`;
  return `M${join([bx, by])}m${-5 * x} -4 ${5 * x} 4 ${-5 * x} 4`;
}
