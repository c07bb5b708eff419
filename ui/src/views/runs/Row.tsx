/* One row of the list. On narrow screens its cells become three lines, by the style sheet alone. */

import { memo } from "./memo";
import type { Run } from "../../api/types";
import { formatAgo, formatClock, formatCost, formatDuration, shortId } from "../../format";
import { Glyph } from "../../parts/glyphs";
import { hrefOf, open } from "../../router";
import { now } from "../../state/clock";
import { texts } from "../../texts";
import { ageOf, glyphOf, sentenceOf } from "./sentence";

interface RowProps {
  run: Run;
  index: number;
  /** Where the row stands, in pixels. */
  top: number;
  /** The number of seconds that fill the bar of the duration, for runs of its graph. */
  scale: number;
  isChosen: boolean;
  isHere: boolean;
  onChoose: (id: string) => void;
}

export const Row = memo(function Row({ run, index, top, scale, isChosen, isHere, onChoose }: RowProps) {
  const { tone, lead, rest } = sentenceOf(run);
  const href = hrefOf(["runs", run.id]);
  const click = (event: MouseEvent): void => {
    if ((event.target as Element).closest("a, input")) return;
    open(href);
  };
  return (
    <tr class={`${isChosen ? "chosen " : ""}${isHere ? "here" : ""}`} aria-rowindex={index + 2} aria-selected={isChosen} style={{ top: `${top}px` }} onClick={click}>
      <td class="c-tick">
        <input type="checkbox" class="tick" checked={isChosen} aria-label={`${texts.runs.choose}: ${run.graph} ${shortId(run.id)}`} onChange={() => onChoose(run.id)} />
      </td>
      <td class="c-status">
        <Glyph status={glyphOf(run)} isSilent /> <span class={`word word-${run.status}`}>{texts.runStatus[run.status]}</span>
      </td>
      <td class="c-graph">
        <a class="graph plain" href={href}>
          {run.graph}
        </a>
      </td>
      <td class={`c-why why ${tone}`}>
        {lead && <b>{lead}</b>} {rest}
      </td>
      <td class="c-run mono quiet">{shortId(run.id)}</td>
      <td class="c-start mid">
        <Started at={run.createdAt} />
      </td>
      <td class="c-dur">
        <Duration run={run} scale={scale} />
      </td>
      <td class={`c-cost num${run.totalCostUsd ? "" : " quiet"}`}>{formatCost(run.totalCostUsd)}</td>
      <td class="c-tags">
        {run.tags.map((tag) => (
          <span key={tag} class="chip">
            {tag}
          </span>
        ))}
      </td>
    </tr>
  );
});

function Started({ at }: { at: string }) {
  return <time dateTime={at}>{formatAgo(at, now.value)}</time>;
}

function Duration({ run, scale }: { run: Run; scale: number }) {
  const isLive = run.status === "running" || run.status === "waiting" || run.status === "paused";
  const seconds = ageOf(run, isLive ? now.value : 0);
  const share = seconds === null ? 0 : Math.min(100, Math.max(0.8, (seconds / scale) * 100));
  return (
    <div class="dur">
      <svg aria-hidden>
        <rect class="track" y="3.500" width="100%" height="1" />
        {seconds !== null && <rect class={`b-${run.status}`} y="1" width={`${share}%`} height="6" rx="1" />}
      </svg>
      <span class={`num${seconds === null ? " quiet" : ""}`}>{seconds === null ? texts.none : isLive ? formatClock(seconds) : formatDuration(seconds)}</span>
    </div>
  );
}
