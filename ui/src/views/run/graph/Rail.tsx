/* The graph as a rail, where the screen is narrow: one row for a node in the order of the graph, its glyph on a lane. Nodes
   that stand beside each other have lanes beside each other; loops are told in words. */

import { formatClock, formatDuration } from "../../../format";
import { GlyphAt } from "../../../parts/glyphs";
import type { RunScene } from "../scene";
import { findBackEdges } from "./order";
import { HeatStrip } from "./Node";
import type { NodeView } from "./nodes";

const LANES = [20, 40, 60];
const ROW = 48;
const TALL = 96;

interface RailProps {
  scene: RunScene;
  chosenKey: string | null;
  onChoose: (key: string) => void;
}

export function Rail({ scene, chosenKey, onChoose }: RailProps) {
  if (!scene.graph) return null;
  const { nodes, edges } = scene.graph;
  const lanes = lanesOf(nodes.map((node) => node.id), edges);
  const views = scene.nodes(nodes, edges).filter((view) => view.kind !== "start" && view.kind !== "end");
  views.sort((a, b) => (lanes.get(a.id)?.rank ?? 0) - (lanes.get(b.id)?.rank ?? 0));
  const tops = new Map<string, number>();
  let height = 0;
  for (const view of views) {
    const high = view.heat.length ? TALL : ROW;
    tops.set(view.id, height + high / 2);
    height += high;
  }
  const point = (id: string): [number, number] | null => {
    const y = tops.get(id);
    return y === undefined ? null : [LANES[lanes.get(id)?.lane ?? 0] ?? 60, y];
  };
  const back = findBackEdges(nodes.map((node) => node.id), edges);
  return (
    <section class="railview rail-pane">
      <svg width="80" height={height} aria-hidden>
        {edges.map((edge, index) => {
          const [from, to] = [point(edge.source), point(edge.target)];
          if (!from || !to || back.has(index) || to[1] <= from[1]) return null;
          const isTaken = scene.byNode.has(edge.source) && scene.byNode.has(edge.target);
          return <path key={index} class={`edge ${isTaken ? "taken" : edge.kind === "conditional" || edge.kind === "declared" ? "maybe" : ""}`} d={branch(from, to)} />;
        })}
        {views.map((view) => {
          const at = point(view.id);
          return (
            at && (
              <g key={view.id}>
                <circle class="under" cx={at[0]} cy={at[1]} r="10" />
                <GlyphAt status={view.status} x={at[0] - 7} y={at[1] - 7} />
              </g>
            )
          );
        })}
      </svg>
      <div class="grow">
        {views.map((view) => (
          <RailRow key={view.id} view={view} scene={scene} isChosen={view.visits.some((visit) => visit.key === chosenKey)} onChoose={onChoose} />
        ))}
      </div>
    </section>
  );
}

function RailRow({ view, scene, isChosen, onChoose }: { view: NodeView; scene: RunScene; isChosen: boolean; onChoose: (key: string) => void }) {
  const { visit } = view;
  const took = visit ? ((visit.endedAt ?? scene.now) - visit.startedAt) / 1000 : null;
  return (
    <button type="button" class={`rr${view.heat.length ? " tall" : ""}${visit ? "" : " due"}${isChosen ? " chosen" : ""}`} disabled={!visit} onClick={() => visit && onChoose(visit.key)}>
      <b class="cut">
        {view.name} <span class="quiet">{view.badge}</span>
      </b>
      <span class="right">{took === null ? "" : visit?.endedAt ? formatDuration(took) : formatClock(took)}</span>
      <span class="meta">
        {view.heat.length ? "" : view.meta} {view.hot && <span class={`s-${view.status === "retrying" ? "failed" : view.status}`}>{view.hot}</span>}
      </span>
      {view.heat.length > 0 && (
        <svg class="heat" viewBox="0 0 240 24" preserveAspectRatio="none" aria-hidden>
          <HeatStrip heat={view.heat} x={0} y={4} width={240} />
        </svg>
      )}
    </button>
  );
}

/** Return the rank and the lane of each node: the longest way to it, and its place among those of its rank. */
function lanesOf(ids: string[], edges: { source: string; target: string }[]): Map<string, { rank: number; lane: number }> {
  const back = findBackEdges(ids, edges);
  const down = edges.filter((_, index) => !back.has(index));
  const rank = new Map(ids.map((id) => [id, 0]));
  for (let round = 0, isMoving = true; isMoving && round <= ids.length; round += 1) {
    isMoving = false;
    for (const edge of down) {
      const least = (rank.get(edge.source) ?? 0) + 1;
      if ((rank.get(edge.target) ?? 0) < least) {
        rank.set(edge.target, least);
        isMoving = true;
      }
    }
  }
  const used = new Map<number, number>();
  return new Map(
    ids.map((id) => {
      const own = rank.get(id) ?? 0;
      const lane = used.get(own) ?? 0;
      used.set(own, lane + 1);
      return [id, { rank: own, lane: Math.min(lane, LANES.length - 1) }];
    }),
  );
}

/** A line that changes its lane with a round corner just below where it begins. */
function branch([x1, y1]: [number, number], [x2, y2]: [number, number]): string {
  if (x1 === x2) return `M${x1} ${y1}V${y2}`;
  const r = 8 * Math.sign(x2 - x1);
  const turn = x2 > x1 ? y1 + 18 : y2 - 18;
  return `M${x1} ${y1}V${turn - 8}Q${x1} ${turn} ${x1 + r} ${turn}H${x2 - r}Q${x2} ${turn} ${x2} ${turn + 8}V${y2}`;
}
