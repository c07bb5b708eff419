/* The axis of the waterfall: the period that is shown, round ticks in it, and long waits that are folded.

   A run that works for a minute and waits for a day would be a sliver: so a time in which nothing works, and which is longer
   than a fifth of the whole, takes a fixed small share of the width. */

export interface Span {
  from: number;
  to: number;
}

interface Piece extends Span {
  /** Where it begins and ends, in percent. */
  left: number;
  right: number;
  isFolded: boolean;
}

const FOLDED = 7;
const LONG = 0.2;

/** Where times stand, in percent of the width. */
export class Scale {
  readonly pieces: Piece[];

  constructor(
    readonly span: Span,
    folds: Span[] = [],
  ) {
    const open = span.to - span.from - folds.reduce((sum, fold) => sum + fold.to - fold.from, 0);
    const room = 100 - FOLDED * folds.length;
    this.pieces = [];
    let [at, left] = [span.from, 0];
    const add = (to: number, isFolded: boolean): void => {
      if (to <= at) return;
      const right = left + (isFolded ? FOLDED : ((to - at) / Math.max(1, open)) * room);
      this.pieces.push({ from: at, to, left, right, isFolded });
      [at, left] = [to, right];
    };
    for (const fold of folds) {
      add(fold.from, false);
      add(fold.to, true);
    }
    add(span.to, false);
  }

  place(at: number): number {
    const piece = this.pieces.find((each) => at <= each.to) ?? this.pieces[this.pieces.length - 1];
    if (!piece) return 0;
    return piece.left + ((at - piece.from) / (piece.to - piece.from)) * (piece.right - piece.left);
  }

  /** Return the time at a place. */
  timeAt(x: number): number {
    const piece = this.pieces.find((each) => x <= each.right) ?? this.pieces[this.pieces.length - 1];
    if (!piece || piece.right === piece.left) return this.span.from;
    return piece.from + ((x - piece.left) / (piece.right - piece.left)) * (piece.to - piece.from);
  }

  /** Round ticks where the axis is not folded, none nearer than so many percent to another or to a fold. */
  ticks(origin: number): Tick[] {
    const open = this.pieces.filter((piece) => !piece.isFolded);
    const shown = open.reduce((sum, piece) => sum + piece.to - piece.from, 0);
    const isFree = (at: number): boolean => this.pieces.every((piece) => !piece.isFolded || Math.abs((piece.left + piece.right) / 2 - at) > 9);
    return open
      .flatMap((piece) => ticksOf(piece, origin, shown))
      .filter((tick, index, all) => isFree(this.place(tick.at)) && (index === 0 || this.place(tick.at) - this.place((all[index - 1] as Tick).at) > 8));
  }
}

/** Return the times in a span in which nothing works, if they are longer than a fifth of it. */
export function findFolds(span: Span, busy: Span[]): Span[] {
  const folds: Span[] = [];
  let at = span.from;
  const least = (span.to - span.from) * LONG;
  for (const { from, to } of [...busy].sort((a, b) => a.from - b.from)) {
    if (from - at > least) folds.push({ from: at, to: from });
    at = Math.max(at, to);
  }
  if (span.to - at > least) folds.push({ from: at, to: span.to });
  return folds;
}

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800];

export interface Tick {
  at: number;
  label: string;
}

/** Return at most six round ticks, as times from the beginning of the run. */
export function ticksOf(span: Span, origin: number, shown = span.to - span.from): Tick[] {
  const seconds = shown / 1000;
  const step = STEPS.find((each) => seconds / each <= 5) ?? 604_800;
  const first = Math.ceil((span.from - origin) / 1000 / step - 1e-9) * step;
  const ticks: Tick[] = [];
  for (let offset = first; offset * 1000 + origin <= span.to + 1; offset += step) ticks.push({ at: origin + offset * 1000, label: labelOf(offset, step) });
  return ticks;
}

function labelOf(seconds: number, step: number): string {
  if (step < 1) return `${seconds.toFixed(step < 0.1 ? 2 : 1)} s`;
  if (step < 30 && seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const pad = (number: number): string => String(number).padStart(2, "0");
  if (step >= 86_400) return `${Math.round(whole / 86_400)} d`;
  if (whole >= 3600) return `${Math.floor(whole / 3600)}:${pad(Math.floor((whole % 3600) / 60))}:${pad(whole % 60)}`;
  return `${Math.floor(whole / 60)}:${pad(whole % 60)}`;
}
