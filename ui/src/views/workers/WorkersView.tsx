/* Workers and queues, which all workspaces share. */

import { api } from "../../api/client";
import type { Queue, Worker } from "../../api/types";
import { formatAgo, formatDuration } from "../../format";
import { Bones, Empty, SureButton } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { Problem } from "../../parts/Problem";
import { hrefOf } from "../../router";
import { now } from "../../state/clock";
import { may } from "../../state/session";
import { attempt } from "../../state/toast";
import { texts } from "../../texts";

const words = texts.workers;
const { columns } = words;

export function WorkersView() {
  const [workers, again] = useLoad((signal) => api.workers(signal), [], 5);
  const [queues] = useLoad((signal) => api.queues(signal), [], 5);
  return (
    <div class="scroller">
      <header class="head">
        <h1>{words.title}</h1>
      </header>
      <section class="sheet">
        {workers.value.error !== null && !workers.value.data ? <Problem error={workers.value.error} onRetry={again} /> : !workers.value.data ? <Bones /> : <Workers workers={workers.value.data} onChange={again} />}
        {queues.value.data && <Queues queues={queues.value.data} />}
      </section>
    </div>
  );
}

function Workers({ workers, onChange }: { workers: Worker[]; onChange: () => void }) {
  if (!workers.length) {
    return (
      <Empty title={words.none}>
        <p>{words.noneHelp}</p>
      </Empty>
    );
  }
  return (
    <table class="plain">
      <thead>
        <tr>
          <th>{columns.worker}</th>
          <th>{columns.host}</th>
          <th>{columns.status}</th>
          <th>{columns.load}</th>
          <th>{columns.queues}</th>
          <th>{columns.since}</th>
          <td />
        </tr>
      </thead>
      <tbody>
        {workers.map((worker) => (
          <tr key={worker.id}>
            <td class="mono cut">{worker.id}</td>
            <td>{`${worker.host} · ${worker.pid}`}</td>
            <td>
              <Glyph status={worker.status === "live" ? "completed" : worker.status === "draining" ? "paused" : "failed"} isSilent /> {words.status[worker.status]}
            </td>
            <td>
              <Load used={worker.claimed} of={worker.capacity} />
            </td>
            <td>{worker.queues?.join(", ") ?? words.allQueues}</td>
            <td class="mid">{formatAgo(worker.startedAt, now.value)}</td>
            <td class="num">
              {may("workers:manage") && worker.status === "live" && (
                <SureButton look="small" sure={words.sure} onSure={() => void attempt(() => api.drain(worker.id), words.drained).then(onChange)}>
                  {words.drain}
                </SureButton>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Load({ used, of }: { used: number; of: number }) {
  return (
    <div class="dur">
      <svg aria-hidden>
        <rect class="track" y="3.5" width="100%" height="1" />
        <rect class="b-running" y="1" width={`${of ? Math.min(100, (used / of) * 100) : 0}%`} height="6" rx="1" />
      </svg>
      <span class="num">{`${used} / ${of}`}</span>
    </div>
  );
}

function Queues({ queues }: { queues: Queue[] }) {
  return (
    <>
      <h2 class="subhead">{words.queues}</h2>
      <table class="plain">
        <thead>
          <tr>
            <th>{columns.queue}</th>
            <th>{columns.depth}</th>
            <th>{columns.oldest}</th>
            <th>{columns.claimed}</th>
            <th>{columns.limit}</th>
            <th>{columns.dead}</th>
            <th>{columns.workers}</th>
          </tr>
        </thead>
        <tbody>
          {queues.map((queue) => (
            <tr key={queue.name}>
              <td>
                <a href={hrefOf(["runs"], { queue: queue.name })}>{queue.name}</a>
              </td>
              <td>{queue.depth}</td>
              <td class={queue.oldestDueSeconds && queue.oldestDueSeconds > 60 ? "s-waiting" : ""}>{queue.oldestDueSeconds === null ? texts.none : formatDuration(queue.oldestDueSeconds)}</td>
              <td>{queue.claimed}</td>
              <td>{[queue.maxRunning, queue.startsPerMinute === null ? null : words.perMinute(queue.startsPerMinute)].filter((limit) => limit !== null).join(", ") || words.unlimited}</td>
              <td class={queue.dead ? "s-failed" : ""}>{queue.dead}</td>
              <td>{queue.workers}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
