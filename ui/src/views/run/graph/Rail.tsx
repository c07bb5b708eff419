/* The graph as a rail, where the screen is narrow: one row for a node in the order of the graph, its glyph on a lane. Nodes
   that stand beside each other have lanes beside each other; loops are told in words. */

import { formatClock, formatDuration } from "../../../format";
import { Button } from "../../../parts/controls";
import { GlyphAt } from "../../../parts/glyphs";
import { address, choose } from "../../../router";
import { texts } from "../../../texts";
import type { RunScene } from "../scene";
import { unfoldEdge } from "./folds";
import { useDrawing } from "./GraphPane";
import { findBackEdges } from "./order";
import { HeatStrip } from "./Node";
import { findNode, type NodeView } from "./nodes";

const LANES = [20, 40, 60];
const ROW = 48;
const TALL = 96;

interface RailProps {
  scene: RunScene;
  chosenKey: string | null;
  onChoose: (key: string) => void;
}

export function Rail({ scene, chosenKey, onChoose }: RailProps) {
  const opened = address.value.query.getAll("open");
  const drawing = useDrawing(scene, opened);
  if (!drawing) return null;
  const { nodes, edges, frames } = drawing;
  const toggle = (id: string): void => choose({ open: opened.includes(id) ? opened.filter((each) => each !== id) : [...opened, id] });
  const lanes = lanesOf(nodes.map((node) => node.id), edges);
  const views = scene.nodes(drawing).filter((view) => view.kind !== "start" && view.kind !== "end");
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
  const chosenNode = findNode(views, chosenKey, scene.visits);
  return (
    <section class="railview rail-pane">
      <svg width="80" height={height} aria-hidden>
        {edges.map((edge, index) => {
          const [from, to] = [point(edge.source), point(edge.target)];
          if (!from || !to || back.has(index) || to[1] <= from[1]) return null;
          const { source, target } = unfoldEdge(edge, drawing.chains);
          const isTaken = scene.byNode.has(source) && scene.byNode.has(target);
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
          <RailRow key={view.id} view={view} scene={scene} frame={frames.find((frame) => frame.members[0] === view.id)} isChosen={view.id === chosenNode} onChoose={onChoose} onToggle={toggle} />
        ))}
      </div>
    </section>
  );
}

interface RailRowProps {
  view: NodeView;
  scene: RunScene;
  /** The frame of which it is the first node. */
  frame: { id: string; name: string } | undefined;
  isChosen: boolean;
  onChoose: (key: string) => void;
  onToggle: (id: string) => void;
}

function RailRow({ view, scene, frame, isChosen, onChoose, onToggle }: RailRowProps) {
  const { visit } = view;
  const took = visit ? ((visit.endedAt ?? scene.now) - visit.startedAt) / 1000 : null;
  return (
    <div class={`railrow${isChosen ? " chosen" : ""}`}>
      <button type="button" class={`rr${view.heat.length ? " tall" : ""}${visit ? "" : " due"}`} disabled={!visit} onClick={() => visit && onChoose(visit.key)}>
        <b class="cut">
          {view.name} <span class="quiet">{view.badge}</span>
        </b>
        <span class="right">{took === null || view.isChain ? "" : visit?.endedAt ? formatDuration(took) : formatClock(took)}</span>
        <span class="meta">
          {view.heat.length ? "" : view.meta} {view.hot && <span class={`s-${view.status === "retrying" ? "failed" : view.status}`}>{view.hot}</span>}
        </span>
        {view.heat.length > 0 && (
          <svg class="heat" viewBox="0 0 240 24" preserveAspectRatio="none" aria-hidden>
            <HeatStrip heat={view.heat} x={0} y={4} width={240} />
          </svg>
        )}
      </button>
      {view.isOpenable && <Button look="bare small" icon="open" label={texts.run.graph.open(view.name)} onClick={() => onToggle(view.id)} />}
      {frame && <Button look="bare small" icon="shut" label={texts.run.graph.shut(frame.name)} onClick={() => onToggle(frame.id)} />}
    </div>
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
