/* The strip of time: how many runs began in each part of the period, good ones upward, failed ones downward. Dragging over
   it sets the filter. */

import { useSignal } from "@preact/signals";
import type { RunCounts } from "../../api/types";
import { formatDay, formatTime } from "../../format";
import { choose } from "../../router";
import { texts } from "../../texts";

export interface Bucket {
  start: string;
  end: string;
  total: number;
  failed: number;
}

/** Return the parts of the period, each with its end. */
export function toBuckets(counts: RunCounts[], end: string): Bucket[] {
  return counts.map(({ start, total, byStatus }, index) => ({ start, end: counts[index + 1]?.start ?? end, total, failed: byStatus.failed ?? 0 }));
}

const UP = 32;
const DOWN = 10;

export function Strip({ buckets }: { buckets: Bucket[] }) {
  const drag = useSignal<{ from: number; to: number } | null>(null);
  if (!buckets.length) return null;
  const most = Math.max(1, ...buckets.map((bucket) => bucket.total - bucket.failed));
  const mostFailed = Math.max(1, most / 3, ...buckets.map((bucket) => bucket.failed));
  const width = 100 / buckets.length;
  const at = (event: PointerEvent): number => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.min(buckets.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * buckets.length)));
  };
  const press = (event: PointerEvent): void => {
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
    drag.value = { from: at(event), to: at(event) };
  };
  const move = (event: PointerEvent): void => {
    if (drag.value) drag.value = { ...drag.value, to: at(event) };
  };
  const release = (): void => {
    const chosen = drag.value;
    drag.value = null;
    if (!chosen) return;
    const [first, last] = [buckets[Math.min(chosen.from, chosen.to)], buckets[Math.max(chosen.from, chosen.to)]];
    if (first && last) choose({ since: null, from: first.start, to: last.end }, true);
  };
  const sum = buckets.reduce((total, bucket) => total + bucket.total, 0);
  const failed = buckets.reduce((total, bucket) => total + bucket.failed, 0);
  const chosen = drag.value;
  return (
    <div class="strip">
      <svg role="img" aria-label={texts.runs.strip(sum, failed, formatDay(buckets[0]?.start ?? ""))} onPointerDown={press} onPointerMove={move} onPointerUp={release}>
        {chosen && <rect class="picked" x={`${Math.min(chosen.from, chosen.to) * width}%`} width={`${(Math.abs(chosen.to - chosen.from) + 1) * width}%`} height="46" />}
        {buckets.map((bucket, index) => {
          const good = bucket.total - bucket.failed;
          const high = good ? Math.max(2, (good / most) * UP) : 0;
          const low = bucket.failed ? Math.max(2, (bucket.failed / mostFailed) * DOWN) : 0;
          const x = `${index * width}%`;
          return [
            high > 0 && <rect class={index === buckets.length - 1 ? "live-bar" : "done"} x={x} y={34 - high} width={`${width * 0.75}%`} height={high} />,
            low > 0 && <rect class="fail" x={x} y="35" width={`${width * 0.75}%`} height={low} />,
          ];
        })}
        <line class="base" y1="34.5" y2="34.5" x2="100%" />
        {[0, 0.25, 0.5, 0.75].map((share) => (
          <text key={share} x={`${share * 100}%`} y="55">
            {labelAt(buckets, share)}
          </text>
        ))}
        <text x="100%" y="55" text-anchor="end">
          {isNow(buckets) ? texts.runs.now : labelAt(buckets, 1)}
        </text>
      </svg>
    </div>
  );
}

function isNow(buckets: Bucket[]): boolean {
  return Date.parse(buckets[buckets.length - 1]?.end ?? "") > Date.now() - 60_000;
}

function labelAt(buckets: Bucket[], share: number): string {
  const bucket = buckets[Math.min(buckets.length - 1, Math.floor(share * buckets.length))];
  if (!bucket) return "";
  const whole = Date.parse(buckets[buckets.length - 1]?.end ?? "") - Date.parse(buckets[0]?.start ?? "");
  if (whole > 3 * 86_400_000) return formatDay(bucket.start);
  const time = formatTime(bucket.start).slice(0, 5);
  return share === 0 && whole > 12 * 3_600_000 ? `${formatDay(bucket.start)} ${time}` : time;
}
