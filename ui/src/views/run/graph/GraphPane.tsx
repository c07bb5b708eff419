/* The graph of a run: a drawing that changes where it stands. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { DrawnEdge } from "../../../api/types";
import { Button, Segments } from "../../../parts/controls";
import { address, choose } from "../../../router";
import { texts } from "../../../texts";
import type { RunScene } from "../scene";
import { type EdgeLook, lookOf } from "./edges";
import { type FoldedDrawing, foldChains } from "./folds";
import { type Layout, layOut, type PlacedGroup, type Routed, toPath, toTip } from "./layout";
import { GraphNode } from "./Node";
import { findNode, type NodeView } from "./nodes";
import { openInPlace } from "./subgraphs";

const words = texts.run.graph;
/** How far a drawing is made smaller to fit the pane. */
const LEAST_WIDE = 0.6;
const LEAST_HIGH = 0.85;
const ZOOMS = [0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1, 1.25, 1.5, 2];

interface GraphPaneProps {
  scene: RunScene;
  chosenKey: string | null;
  onChoose: (key: string) => void;
  onPane?: ((pane: string) => void) | undefined;
}

export function GraphPane({ scene, chosenKey, onChoose, onPane }: GraphPaneProps) {
  const opened = address.value.query.getAll("open");
  const canvas = useRef<HTMLDivElement>(null);
  const zoom = useSignal<number | null>(null);
  const drawing = useDrawing(scene, opened);
  const views = drawing ? scene.nodes(drawing) : [];
  const sizes = useRef(new Map<string, { width: number; height: number }>());
  const boxes = views.map((view) => keepSize(sizes.current, view));
  const shape = boxes.map((box) => `${box.id} ${box.width} ${box.height}`).join("\n");
  const edges = drawing ? labelled(drawing, scene) : [];
  const layout = useMemo(() => (drawing ? layOut(boxes, edges, drawing.frames) : null), [drawing, shape, edges.map((edge) => edge.label).join("\n")]);
  const fits = useSignal(1);
  useEffect(() => {
    const box = canvas.current;
    if (!box || !layout) return undefined;
    const measure = (): void => {
      const [width, height] = [(box.clientWidth - 32) / layout.width, (box.clientHeight - 32) / layout.height];
      fits.value = Math.min(1, Math.max(LEAST_WIDE, Math.min(width, Math.max(LEAST_HIGH, height)))); // beyond that it scrolls
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    return () => observer.disconnect();
  }, [layout]);
  const scale = zoom.value ?? fits.value;
  const step = (by: number) => (): void => {
    const at = ZOOMS.findIndex((each) => each >= scale - 0.001);
    zoom.value = ZOOMS[Math.min(ZOOMS.length - 1, Math.max(0, at + by))] ?? 1;
  };
  const chosenNode = findNode(views, chosenKey, scene.visits);
  useEffect(() => {
    const at = chosenNode ? layout?.nodes.get(chosenNode) : undefined;
    if (canvas.current && at) showWithin(canvas.current, at.x * scale, at.y * scale, at.width * scale, at.height * scale);
  }, [chosenNode, layout, scale]);
  const focusAfter = useRef<string | null>(null);
  const toggle = (id: string): void => {
    const isOpen = opened.includes(id);
    if (canvas.current?.contains(document.activeElement)) focusAfter.current = id;
    choose({ open: isOpen ? opened.filter((each) => each !== id) : [...opened, id] });
  };
  useEffect(() => {
    const id = focusAfter.current;
    focusAfter.current = null;
    if (id) focusNode(canvas.current, drawing?.frames.find((frame) => frame.id === id)?.members[0] ?? id); // what was focused is gone
  }, [drawing]);
  return (
    <section class="pane canvas-pane" aria-label={words.title}>
      <header>
        <h2 class="grow">{words.title}</h2>
        {onPane && (
          <span class="only-mid">
            <Segments label={words.title} chosen="graph" onChoose={onPane} choices={[{ key: "graph", label: words.title }, { key: "waterfall", label: texts.run.fall.title }]} />
          </span>
        )}
        <Button look="bare small only-wide" icon="minus" label={words.smaller} onClick={step(-1)} />
        <Button look="bare small only-wide" icon="plus" label={words.larger} onClick={step(1)} />
        <Button look="bare small only-wide" icon="fit" label={words.fit} onClick={() => (zoom.value = null)} />
      </header>
      <div class={`canvas${scale < 0.4 ? " far" : scale < 0.6 ? " mid-far" : ""}`} ref={canvas}>
        {layout && drawing && (
          <Drawing layout={layout} drawing={drawing} views={views} scene={scene} scale={scale} chosenNode={chosenNode} chosenBox={chosenNode ? null : scene.boxOf(chosenKey)} onShut={toggle} onOpen={toggle} onChoose={(view) => view.visit && onChoose(view.visit.key)} />
        )}
      </div>
    </section>
  );
}

/** The drawing of a run's graph, with what is opened in it, and long chains of a large one folded. */
export function useDrawing(scene: RunScene, opened: string[]): FoldedDrawing | null {
  const { graph, diagram } = scene;
  return useMemo(() => (graph ? foldChains(openInPlace(graph, diagram, opened), opened) : null), [graph, diagram, opened.join("\n")]);
}

function focusNode(box: Element | null, id: string): void {
  box?.querySelector<SVGGElement>(`[data-node="${CSS.escape(id)}"]`)?.focus();
}

/** Scroll a pane, and nothing else, as far as needed to show a part of it. */
function showWithin(box: HTMLElement, x: number, y: number, width: number, height: number): void {
  const room = 24;
  if (y - room < box.scrollTop || y + height + room > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
  if (x - room < box.scrollLeft || x + width + room > box.scrollLeft + box.clientWidth) box.scrollLeft = x + width / 2 - box.clientWidth / 2;
}

/** Sizes only grow while a run is watched, so that nodes stay where they are when a line comes and goes. */
function keepSize(sizes: Map<string, { width: number; height: number }>, view: NodeView): { id: string; width: number; height: number } {
  const before = sizes.get(view.id);
  const size = { width: Math.max(view.width, before?.width ?? 0), height: Math.max(view.height, before?.height ?? 0) };
  sizes.set(view.id, size);
  return { id: view.id, ...size };
}

/** An edge that closes a loop says how often it was taken. */
function labelled(drawing: FoldedDrawing, scene: RunScene): DrawnEdge[] {
  return drawing.edges.map((edge) => {
    const { times } = scene.timesTaken(edge, drawing);
    const isRepeat = times > 0 && scene.isBack(edge, drawing);
    return isRepeat ? { ...edge, label: [edge.label, words.went(times)].filter(Boolean).join(", ") } : edge;
  });
}

interface DrawingProps {
  layout: Layout;
  drawing: FoldedDrawing;
  views: NodeView[];
  scene: RunScene;
  scale: number;
  chosenNode: string | undefined;
  /** The box that is chosen, if it is open. */
  chosenBox: string | null;
  onChoose: (view: NodeView) => void;
  onOpen: (id: string) => void;
  onShut: (id: string) => void;
}

function Drawing({ layout, drawing, views, scene, scale, chosenNode, chosenBox, onChoose, onOpen, onShut }: DrawingProps) {
  const here = useSignal<string | null>(null);
  useEffect(() => {
    here.value = null;
  }, [chosenNode]);
  const placed = (view: NodeView) => layout.nodes.get(view.id);
  const halo = chosenNode ? layout.nodes.get(chosenNode) : undefined;
  const chosenView = views.find((view) => view.id === chosenNode);
  const lift = chosenView?.heat.length ? 6 : 0;
  const order = views.filter((view) => view.kind !== "start" && view.kind !== "end").sort((a, b) => (placed(a)?.y ?? 0) - (placed(b)?.y ?? 0) || (placed(a)?.x ?? 0) - (placed(b)?.x ?? 0));
  const stop = order.find((view) => view.id === here.value)?.id ?? chosenNode ?? order[0]?.id;
  const move = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowDown" || event.key === "ArrowRight" ? 1 : event.key === "ArrowUp" || event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    const next = order[Math.min(order.length - 1, Math.max(0, order.findIndex((view) => view.id === stop) + by))];
    if (!next) return;
    if (next.visit) onChoose(next);
    here.value = next.id;
    focusNode(event.currentTarget as Element, next.id);
  };
  return (
    <svg id="graph" width={layout.width * scale} height={layout.height * scale} viewBox={`0 0 ${layout.width} ${layout.height}`} role="tree" aria-label={words.of(scene.name)} onKeyDown={move}>
      {layout.frames.map((frame) => (
        <Frame key={frame.id} frame={frame} isChosen={frame.id === chosenBox} onShut={onShut} />
      ))}
      {halo && <rect class="halo" x={halo.x - 4} y={halo.y - 4 - lift} width={halo.width + 8} height={halo.height + 8 + lift} rx="9" />}
      {layout.edges
        .map((route) => ({ route, look: lookOfRoute(route, drawing, scene) }))
        .sort((a, b) => RISING.indexOf(a.look) - RISING.indexOf(b.look))
        .map(({ route, look }) => (
          <Edge key={`${route.edge.source} ${route.edge.target} ${route.edge.label}`} route={route} look={look} />
        ))}
      {layout.edges.map(
        ({ edge, label }, index) =>
          label && (
            <text key={index} class="elabel" x={label.at[0]} y={label.at[1]} text-anchor={label.anchor}>
              {edge.label}
            </text>
          ),
      )}
      {layout.bars.map((bar) => (
        <path key={bar.target} class={`joinbar${scene.byNode.has(bar.target) ? " taken" : ""}`} d={`M${bar.x - bar.width / 2} ${bar.y}h${bar.width}`} />
      ))}
      {views.map((view) => {
        const at = placed(view);
        return at && <GraphNode key={view.id} view={view} at={at} isChosen={view.id === chosenNode} isTabStop={view.id === stop} onChoose={() => onChoose(view)} onOpen={() => onOpen(view.id)} />;
      })}
    </svg>
  );
}

/** What was taken lies upon what was not, where edges meet. */
const RISING: EdgeLook[] = ["maybe", "", "taken", "live"];

function lookOfRoute({ edge }: Routed, drawing: FoldedDrawing, scene: RunScene): EdgeLook {
  const isTip = edge.kind === "join" && edge.source === edge.target;
  return lookOf(edge, isTip ? scene.joinTaken(edge.target) : scene.timesTaken(edge, drawing));
}

function Edge({ route, look }: { route: Routed; look: EdgeLook }) {
  const { points, hasTip } = route;
  return (
    <>
      <path class={`edge ${look}`} d={toPath(points)} />
      {hasTip && <path class={`edge ${look === "maybe" ? "maybe-tip" : look}`} d={toTip(points)} />}
    </>
  );
}

/** A subgraph that is open: a frame around its nodes, with a sign to close it. */
function Frame({ frame, isChosen, onShut }: { frame: PlacedGroup; isChosen: boolean; onShut: (id: string) => void }) {
  const { x, y, width, height } = frame;
  return (
    <g class={`subframe${isChosen ? " chosen" : ""}`}>
      <rect x={x} y={y} width={width} height={height} rx="8" />
      <text x={x + 8} y={y + 14}>
        {frame.name}
      </text>
      <g class="opener" role="button" tabindex={0} aria-label={words.shut(frame.name)} onClick={() => onShut(frame.id)} onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && onShut(frame.id)}>
        <rect x={x + width - 24} y={y} width="24" height="24" fill="transparent" />
        <path d={`M${x + width - 18} ${y + 10}h10`} fill="none" stroke="currentColor" stroke-width="1.5" />
      </g>
    </g>
  );
}
