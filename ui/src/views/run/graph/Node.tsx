/* One node of the drawing. State is border and glyph; a fan-out has sheets behind it, a counter and a strip of heat. */

import { GlyphAt } from "../../../parts/glyphs";
import { texts } from "../../../texts";
import type { Placed } from "./layout";
import type { Heat, NodeView } from "./nodes";

interface NodeProps {
  view: NodeView;
  at: Placed;
  isChosen: boolean;
  isTabStop: boolean;
  onChoose: () => void;
  onOpen: () => void;
}

export function GraphNode({ view, at, isChosen, isTabStop, onChoose, onOpen }: NodeProps) {
  const { x, y, width, height } = at;
  if (view.kind === "start" || view.kind === "end") return <circle class={`term${view.kind === "end" ? " end" : ""}`} cx={x + width / 2} cy={y + height / 2} r="5" />;
  const isFan = view.heat.length > 0;
  const isAlone = !view.meta && !view.hot;
  const press = (event: KeyboardEvent): void => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (view.visit || !view.isOpenable) onChoose();
      else onOpen();
    } else if (event.key === "o" && view.isOpenable) onOpen();
  };
  return (
    <g class={`node ${view.isInner ? "within" : view.status}${isChosen ? " selected" : ""}`} tabindex={isTabStop ? 0 : -1} role="treeitem" aria-selected={isChosen} {...(view.isOpenable ? { "aria-expanded": false } : {})} data-node={view.id} onClick={onChoose} onKeyDown={press}>
      {isFan && [6, 3].map((d) => <rect key={d} class="sheet-2" x={x + d} y={y - d} width={width - 2 * d} height={height} rx="6" />)}
      <rect class="body" x={x} y={y} width={width} height={height} rx="6" />
      {(view.kind === "subgraph" || view.isChain) && <rect class="inner" x={x + 3} y={y + 3} width={width - 6} height={height - 6} rx="3.5" />}
      {!view.isInner && <GlyphAt status={view.status} x={x + 11} y={y + 10 + (isAlone ? 5 : 0)} />}
      <text class="name" x={x + (view.isInner ? 14 : 33)} y={y + 21 + (isAlone ? 5 : 0)}>
        {`${view.name} `}
      </text>
      {view.badge && (
        <text class="meta" x={x + width - 11} y={y + 21} text-anchor="end">
          {`${view.badge} `}
        </text>
      )}
      {view.meta && (
        <text class="meta" x={x + 33} y={y + 36}>
          {`${view.meta} `}
        </text>
      )}
      {view.hot && (
        <text class="meta hot" x={x + (isFan ? 11 : 33)} y={y + (isFan ? 41 : view.meta ? 51 : 36)}>
          {`${view.hot} `}
        </text>
      )}
      {isFan && <HeatStrip heat={view.heat} x={x + 11} y={y + 58} width={width - 22} />}
      {view.isOpenable && (
        <g
          class="opener"
          role="button"
          aria-label={texts.run.graph.open(view.name)}
          onClick={(event) => {
            event.stopPropagation();
            onOpen();
          }}
        >
          <rect x={x + width - 30} y={y + 10} width="24" height="24" fill="transparent" />
          <path class="i" d={`M${x + width - 25} ${y + 15}h12v12h-12zM${x + width - 19} ${y + 18}v6m-3-3h6`} fill="none" stroke="currentColor" stroke-width="1.5" />
        </g>
      )}
    </g>
  );
}

const HIGH: Record<Heat, number> = { done: 9, run: 14, fail: 20, due: 3 };

/** One column for a share of the tasks. Its height says its state without colour. */
export function HeatStrip({ heat, x, y, width }: { heat: Heat[]; x: number; y: number; width: number }) {
  const step = width / heat.length;
  return (
    <g>
      {heat.map((state, index) => (
        <rect key={index} class={`h-${state}`} x={x + index * step} y={y + 20 - HIGH[state]} width={Math.max(0.5, step - 1)} height={HIGH[state]} />
      ))}
    </g>
  );
}
