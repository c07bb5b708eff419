/* The waterfall: when each node worked, waited in the queue, failed and tried again, or asked. Drag over the axis to see a
   part of the time, press 0 for all of it. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { formatDuration } from "../../../format";
import { useKeys } from "../../../keys";
import { Segments } from "../../../parts/controls";
import { Glyph } from "../../../parts/glyphs";
import { texts } from "../../../texts";
import type { RunScene } from "../scene";
import { type Bar, type FallRow, fallRows } from "./rows";
import { findFolds, Scale, type Span } from "./time";

const words = texts.run.fall;

interface WaterfallProps {
  scene: RunScene;
  chosenKey: string | null;
  onChoose: (key: string) => void;
  onPane?: ((pane: string) => void) | undefined;
  children?: ComponentChildren;
}

export function Waterfall({ scene, chosenKey, onChoose, onPane, children }: WaterfallProps) {
  const mode = useSignal<"steps" | "calls">("steps");
  const zoom = useSignal<Span | null>(null);
  const isUnfolded = useSignal(false);
  useKeys({ "0": () => (zoom.value = null) });
  const rows = fallRows(scene, mode.value, chosenKey);
  const origin = Date.parse(scene.run.createdAt);
  const span = zoom.value ?? wholeSpan(scene, rows, origin);
  const scale = new Scale(span, zoom.value || isUnfolded.value ? [] : findFolds(span, busyTimes(rows)));
  const isLive = !["completed", "failed", "cancelled"].includes(scene.run.status);
  const nowAt = isLive && scene.now <= span.to ? scale.place(scene.now) : null;
  const ticks = scale.ticks(origin);
  const hasFolds = scale.pieces.some((piece) => piece.isFolded);
  return (
    <section class="pane fallpane" aria-label={words.title}>
      <header>
        <h2 class="grow">{words.title}</h2>
        {onPane && (
          <span class="only-mid">
            <Segments label={words.title} chosen="waterfall" onChoose={onPane} choices={[{ key: "graph", label: texts.run.graph.title }, { key: "waterfall", label: words.title }]} />
          </span>
        )}
        {(hasFolds || isUnfolded.value) && !zoom.value && (
          <button type="button" class="link" onClick={() => (isUnfolded.value = !isUnfolded.value)}>
            {isUnfolded.value ? words.fold : words.unfold}
          </button>
        )}
        {zoom.value && (
          <button type="button" class="link" onClick={() => (zoom.value = null)}>
            {words.whole}
          </button>
        )}
        <Segments label={words.title} chosen={mode.value} onChoose={(key) => (mode.value = key)} choices={[{ key: "steps", label: words.steps }, { key: "calls", label: words.calls }]} />
      </header>
      <div class="fall">
        <Axis ticks={ticks.map(({ at, label }) => ({ x: scale.place(at), label }))} nowAt={nowAt} scale={scale} onZoom={(chosen) => (zoom.value = chosen)} />
        {rows.map((row) => (
          <Row key={row.key} row={row} scale={scale} ticks={ticks.map(({ at }) => scale.place(at))} nowAt={nowAt} isChosen={row.visit !== null && isOf(scene, row, chosenKey)} onChoose={onChoose} />
        ))}
      </div>
      {children}
      <Legend />
    </section>
  );
}

function isOf(scene: RunScene, row: FallRow, chosenKey: string | null): boolean {
  return scene.byNode.get(row.key)?.some((visit) => visit.key === chosenKey) ?? false;
}

/** The times in which something worked or was tried; the rest was spent waiting. */
function busyTimes(rows: FallRow[]): Span[] {
  const bars = rows.flatMap((row) => row.bars.filter((bar) => bar.kind !== "wait" && bar.kind !== "back" && bar.kind !== "queue"));
  return [...bars, ...rows.flatMap((row) => (row.comb ? [row.comb] : []))];
}

/** All of the run, and the next attempt if it is not far; a live run leaves some room. */
function wholeSpan(scene: RunScene, rows: FallRow[], origin: number): Span {
  const ends = rows.flatMap((row) => row.bars.map((bar) => bar.to));
  const ended = scene.run.completedAt ?? scene.run.failedAt ?? scene.run.cancelledAt;
  const end = ended ? Math.max(Date.parse(ended), ...ends) : Math.max(scene.now, ...ends);
  return { from: origin, to: Math.max(origin + 10, ended ? end : origin + (end - origin) * 1.08) };
}

interface AxisProps {
  ticks: { x: number; label: string }[];
  nowAt: number | null;
  scale: Scale;
  onZoom: (span: Span) => void;
}

function Axis({ ticks, nowAt, scale, onZoom }: AxisProps) {
  const drag = useSignal<{ from: number; to: number } | null>(null);
  const at = (event: PointerEvent): number => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.min(100, Math.max(0, ((event.clientX - box.left) / box.width) * 100));
  };
  const release = (): void => {
    const chosen = drag.value;
    drag.value = null;
    if (!chosen || Math.abs(chosen.to - chosen.from) < 1) return;
    const [low, high] = [Math.min(chosen.from, chosen.to), Math.max(chosen.from, chosen.to)];
    onZoom({ from: scale.timeAt(low), to: scale.timeAt(high) });
  };
  const dragged = drag.value;
  return (
    <div class="axis">
      <span />
      <svg
        aria-hidden
        onPointerDown={(event) => {
          (event.currentTarget as Element).setPointerCapture(event.pointerId);
          drag.value = { from: at(event), to: at(event) };
        }}
        onPointerMove={(event) => drag.value && (drag.value = { ...drag.value, to: at(event) })}
        onPointerUp={release}
      >
        {dragged && <rect class="picked" x={`${Math.min(dragged.from, dragged.to)}%`} width={`${Math.abs(dragged.to - dragged.from)}%`} height="28" />}
        {ticks.map(({ x, label }) =>
          nowAt !== null && Math.abs(x - nowAt) < 11 ? null : (
            <text key={x} x={`${x}%`} y="18" text-anchor={x < 2 ? "start" : x > 96 ? "end" : "middle"}>
              {label}
            </text>
          ),
        )}
        {scale.pieces.map(
          (piece) =>
            piece.isFolded && (
              <text key={piece.from} class="folded" x={`${(piece.left + piece.right) / 2}%`} y="18" text-anchor="middle">
                {`⋯ ${formatDuration((piece.to - piece.from) / 1000)}`}
              </text>
            ),
        )}
        {nowAt !== null && !scale.pieces[scale.pieces.length - 1]?.isFolded && (
          <text class="nowtag" x={`${nowAt}%`} y="18" text-anchor="middle">
            {words.now}
          </text>
        )}
      </svg>
      <span />
    </div>
  );
}

interface RowProps {
  row: FallRow;
  scale: Scale;
  ticks: number[];
  nowAt: number | null;
  isChosen: boolean;
  onChoose: (key: string) => void;
}

function Row({ row, scale, ticks, nowAt, isChosen, onChoose }: RowProps) {
  const name = `fr${row.level ? " in1" : ""}${isChosen ? " chosen" : ""}${row.status === "pending" ? " due" : ""}`;
  const { visit } = row;
  return (
    <button type="button" class={name} disabled={visit === null} onClick={() => visit && onChoose(visit)} tabIndex={row.level ? -1 : 0}>
      <span class="lab">
        {row.status && <Glyph status={row.status} />}
        <span class="cut">
          {row.name} {row.note && <span class="quiet">{row.note}</span>}
        </span>
      </span>
      <svg class="track" aria-hidden>
        {ticks.map((x) => (
          <line key={x} class="gridline" x1={`${x}%`} x2={`${x}%`} y2="28" />
        ))}
        {scale.pieces.map((piece) => piece.isFolded && <rect key={piece.from} class="w-fold" x={`${piece.left}%`} width={`${piece.right - piece.left}%`} height="28" />)}
        {row.comb && <Comb comb={row.comb} scale={scale} />}
        {row.bars.map((bar, index) => (
          <BarShape key={index} bar={bar} scale={scale} isNested={row.level > 0} />
        ))}
        {row.text && (
          <text class="w-text" x={`${scale.place(row.text.at)}%`} y={scale.place(row.text.at) > 82 ? 8 : 18} dx={scale.place(row.text.at) > 82 ? -6 : 6} text-anchor={scale.place(row.text.at) > 82 ? "end" : "start"}>
            {row.text.words}
          </text>
        )}
        {nowAt !== null && <line class="now" x1={`${nowAt}%`} x2={`${nowAt}%`} y2="28" />}
      </svg>
      <span class="d">{row.took}</span>
    </button>
  );
}

function BarShape({ bar, scale, isNested }: { bar: Bar; scale: Scale; isNested: boolean }) {
  const from = Math.max(0, scale.place(bar.from));
  const to = Math.min(100, scale.place(bar.to));
  if (to < 0 || from > 100) return null;
  if (bar.kind === "queue" || bar.kind === "back") return <line class={`w-${bar.kind}`} x1={`${from}%`} x2={`${to}%`} y1="14" y2="14" />;
  return <rect class={`w-${bar.kind}`} x={`${from}%`} y={isNested ? 10 : 9} width={`${Math.max(0.4, to - from)}%`} height={isNested ? 8 : 10} rx="1.5" />;
}

function Comb({ comb, scale }: { comb: NonNullable<FallRow["comb"]>; scale: Scale }) {
  const from = scale.place(comb.from);
  const width = scale.place(comb.to) - from;
  const step = width / comb.counts.length;
  const most = Math.max(1, ...comb.counts);
  return (
    <>
      <rect class="w-band-bg" x={`${from}%`} y="4" width={`${Math.max(0.3, width)}%`} height="20" />
      {comb.counts.map((count, index) => {
        const high = count ? Math.max(1.5, (count / most) * 20) : 0;
        return high > 0 && <rect key={index} class="w-band" x={`${from + index * step}%`} y={24 - high} width={`${step * 0.9}%`} height={high} />;
      })}
    </>
  );
}

function Legend() {
  return (
    <div class="legend" aria-hidden>
      <span>
        <svg>
          <line class="w-queue" x2="20" y1="5" y2="5" />
        </svg>
        {words.queued}
      </span>
      {(["done", "run", "fail"] as const).map((kind) => (
        <span key={kind}>
          <svg>
            <rect class={`w-${kind}`} width="20" height="10" rx="1.5" />
          </svg>
          {kind === "done" ? words.done : kind === "run" ? words.running : words.failed}
        </span>
      ))}
      <span>
        <svg>
          <line class="w-back" x2="20" y1="5" y2="5" />
        </svg>
        {words.backoff}
      </span>
      <span>
        <svg>
          <rect class="w-wait" width="20" height="10" rx="1.5" />
        </svg>
        {words.asks}
      </span>
    </div>
  );
}
