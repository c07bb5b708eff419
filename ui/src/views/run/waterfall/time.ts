/* The axis of the waterfall: the period that is shown, round ticks in it, and waits that are folded. */

export interface Span {
  from: number;
  to: number;
}

/** Return where a time stands in a span, in percent. */
export function place(at: number, span: Span): number {
  return span.to > span.from ? ((at - span.from) / (span.to - span.from)) * 100 : 0;
}

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800];

export interface Tick {
  at: number;
  label: string;
}

/** Return at most six round ticks, as times from the beginning of the run. */
export function ticksOf(span: Span, origin: number): Tick[] {
  const seconds = (span.to - span.from) / 1000;
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
