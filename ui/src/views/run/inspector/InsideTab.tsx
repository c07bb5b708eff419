/* The steps inside the subgraph or the agent that a step has called. */

import { formatClock, formatDuration, formatTime } from "../../../format";
import { Glyph } from "../../../parts/glyphs";
import { texts } from "../../../texts";
import type { InnerVisit } from "../graph/inner";

const words = texts.run.inside;

export function InsideTab({ inner, chosenKey, now, onChoose }: { inner: InnerVisit[]; chosenKey: string | null; now: number; onChoose: (key: string) => void }) {
  return (
    <ul class="insides" aria-label={words.list}>
      {inner.map((visit) => (
        <li key={visit.key}>
          <button type="button" class={`taskline inside deep${depthOf(visit)}${visit.key === chosenKey ? " chosen" : ""}`} aria-pressed={visit.key === chosenKey} onClick={() => onChoose(visit.key)}>
            <Glyph status={visit.status} />
            <span class="cut">
              {visit.name} {visit.tasks.length > 1 && <span class="quiet">{texts.run.graph.times(visit.tasks.length)}</span>}
            </span>
            <span class={`cut ${visit.status === "failed" ? "s-failed" : "quiet"}`}>{noteOf(visit)}</span>
            <span class="d">{tookOf(visit, now)}</span>
          </button>
          {visit.key === chosenKey && <Attempts visit={visit} />}
        </li>
      ))}
    </ul>
  );
}

/** The levels of subgraphs between a step and the box: its key has a part for each. */
function depthOf(visit: InnerVisit): number {
  return Math.min(2, visit.key.slice(visit.parent.length + 1).split("/").length - 1);
}

function tookOf(visit: InnerVisit, now: number): string {
  if (!Number.isFinite(visit.startedAt)) return "";
  return visit.endedAt === null ? formatClock((now - visit.startedAt) / 1000) : formatDuration((visit.endedAt - visit.startedAt) / 1000);
}

function noteOf(visit: InnerVisit): string {
  const error = visit.tasks.map((task) => task.step.error ?? task.attempts.findLast((attempt) => attempt.error)?.error).find(Boolean);
  const count = (kind: string): number => visit.calls.filter((call) => call.kind === kind).length;
  return error?.message ?? words.calls(count("model"), count("tool"));
}

function Attempts({ visit }: { visit: InnerVisit }) {
  const failed = visit.tasks.flatMap((task) => task.attempts).filter((attempt) => attempt.error);
  return (
    <>
      {failed.map((attempt) => (
        <div class="att" key={attempt.number}>
          <span class="n">{attempt.number}</span>
          <Glyph status="failed" />
          <span class="mid">{formatTime(new Date(attempt.startedAt).toISOString())}</span>
          <span class="inside-error">{attempt.error?.message}</span>
        </div>
      ))}
    </>
  );
}
