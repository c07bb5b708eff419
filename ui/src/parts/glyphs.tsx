/* The glyphs of status. No two have the same silhouette: colour only repeats what the shape says. */

import type { ComponentChildren } from "preact";
import { texts } from "../texts";

export type Status =
  | "pending"
  | "running"
  | "waiting"
  | "timer"
  | "paused"
  | "completed"
  | "failed"
  | "retrying"
  | "cancelled"
  | "skipped";

const SHAPES: Record<Status, ComponentChildren> = {
  pending: <circle cx="7" cy="7" r="5" stroke-dasharray="2.1 2.4" />,
  running: [<path d="M7 2a5 5 0 1 1-5 5" />, <circle cx="7" cy="7" r="1.5" fill="currentColor" stroke="none" />],
  waiting: <path d="M7 1.3 12.7 7 7 12.7 1.3 7z" fill="currentColor" stroke-width="1" />,
  timer: <path d="M3 2h8M3 12h8M4 2.2c0 2.9 6 6.700 6 9.600M10 2.200c0 2.900-6 6.700-6 9.600" stroke-width="1.4" />,
  paused: <path d="M4.500 2.600v8.800M9.500 2.600v8.800" stroke-width="2.25" />,
  completed: <path d="m2.200 7.400 3.300 3.400 6.300-7.200" />,
  failed: [
    <rect x="1" y="1" width="12" height="12" rx="2.5" fill="currentColor" stroke="none" />,
    <path d="m4.800 4.800 4.400 4.400m0-4.400-4.400 4.400" stroke="var(--surface)" stroke-width="1.6" />,
  ],
  retrying: <path d="M11.700 7.200a4.700 4.700 0 1 1-1.700-3.800M10.300.9v2.900H7.400" />,
  cancelled: [<circle cx="7" cy="7" r="5.200" />, <path d="m3.500 10.500 7-7" />],
  skipped: <path d="M2 7h5.200M7.400 3.600 10.800 7l-3.400 3.400M12.400 3.600v6.800" stroke-width="1.400" />,
};

interface GlyphProps {
  status: Status;
  isBig?: boolean;
  /** The word beside it says the same, so a screen reader may skip the glyph. */
  isSilent?: boolean;
}

export function Glyph({ status, isBig = false, isSilent = false }: GlyphProps) {
  const name = `g s-${status}${isBig ? " big" : ""}${status === "running" ? " turns" : ""}`;
  const spoken = isSilent ? { "aria-hidden": true as const } : { role: "img" as const, "aria-label": texts.status[status] };
  return (
    <svg class={name} viewBox="0 0 14 14" {...spoken}>
      {SHAPES[status]}
    </svg>
  );
}

/** A glyph within a drawing, at a place. There only its inside can turn: around the middle of the glyph. */
export function GlyphAt({ status, x, y }: { status: Status; x: number; y: number }) {
  return (
    <svg class={`g s-${status}`} x={x} y={y} width="14" height="14" viewBox="0 0 14 14" role="img" aria-label={texts.status[status]}>
      {status === "running" ? <g class="turning">{SHAPES[status]}</g> : SHAPES[status]}
    </svg>
  );
}
