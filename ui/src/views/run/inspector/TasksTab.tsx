/* The tasks of a fan-out: a map of all of them in the order of the input, then a list that begins with what needs a look. */

import { useSignal } from "@preact/signals";
import { formatClock, formatDuration } from "../../../format";
import { Segments } from "../../../parts/controls";
import { Glyph, type Status } from "../../../parts/glyphs";
import { texts } from "../../../texts";
import { type Heat, heatOf } from "../graph/nodes";
import { attemptCount, type Task, type Visit } from "../model";

const words = texts.run.tasks;
const COLUMNS = 50;
const MOST_CELLS = 2000;
const MOST_ROWS = 60;
type Which = "all" | "failed" | "slow";

export function TasksTab({ visit, now }: { visit: Visit; now: number }) {
  const which = useSignal<Which>("all");
  const bad = visit.tasks.filter((task) => task.status === "failed" || task.status === "retrying" || attemptCount(task) > 1);
  const took = (task: Task): number => ((task.step.completedAt ? Date.parse(task.step.completedAt) : now) - Date.parse(task.step.startedAt ?? "")) / 1000 || 0;
  const rows = order(which.value === "failed" ? bad : visit.tasks, which.value, took).slice(0, MOST_ROWS);
  const { counts } = visit;
  const key: [Heat, string][] = [
    ["done", words.done(counts.done)],
    ["run", words.now(counts.running + counts.waiting)],
    ["fail", counts.retrying ? words.again(counts.retrying) : words.failed(counts.failed)],
    ["due", counts.stopped ? words.stopped(counts.stopped) : words.due(counts.due)],
  ];
  return (
    <>
      <div class="block">
        <TaskMap heat={heatOf(visit.tasks, MOST_CELLS)} label={key.map(([, text]) => text).join(", ")} />
        <div class="keyline">
          {key.map(([state, text]) => (
            <span key={state}>
              <svg viewBox="0 0 10 10" aria-hidden>
                <Cell state={state} x={1} y={1} />
              </svg>
              {text}
            </span>
          ))}
        </div>
      </div>
      <div class="subhead">
        <h2 class="grow">{words.first}</h2>
        <Segments
          label={words.first}
          chosen={which.value}
          onChoose={(choice) => (which.value = choice)}
          choices={[
            { key: "all", label: words.all },
            { key: "failed", label: words.bad(bad.length) },
            { key: "slow", label: words.slow },
          ]}
        />
      </div>
      {rows.map((task) => (
        <div class="taskline task mid" key={task.step.id}>
          <Glyph status={task.status} />
          <span class="mono cut">{words.task(task.step.position + 1)}</span>
          <span class={`cut ${task.status === "failed" ? "s-failed" : "quiet"}`}>{task.step.error?.message ?? (attemptCount(task) > 1 ? texts.run.graph.attempt(attemptCount(task)) : "")}</span>
          <span class="d">{task.status === "pending" ? texts.none : task.step.completedAt ? formatDuration(took(task)) : formatClock(took(task))}</span>
        </div>
      ))}
    </>
  );
}

const FIRST: Status[] = ["failed", "retrying", "waiting", "timer", "running"];

function order(tasks: Task[], which: Which, took: (task: Task) => number): Task[] {
  const rank = (task: Task): number => {
    if (which === "slow") return 0;
    const at = FIRST.indexOf(task.status);
    return at < 0 ? (attemptCount(task) > 1 ? FIRST.length : FIRST.length + 1) : at;
  };
  return [...tasks].sort((a, b) => rank(a) - rank(b) || took(b) - took(a));
}

function TaskMap({ heat, label }: { heat: Heat[]; label: string }) {
  const columns = Math.min(COLUMNS, Math.max(10, heat.length));
  const rows = Math.ceil(heat.length / columns);
  return (
    <svg class="map" viewBox={`0 0 ${columns * 8} ${rows * 8}`} role="img" aria-label={label}>
      {heat.map((state, index) => (
        <Cell key={index} state={state} x={(index % columns) * 8 + 1} y={Math.floor(index / columns) * 8 + 1} />
      ))}
    </svg>
  );
}

/** One cell: done is full, failed is larger, due is a dot. */
function Cell({ state, x, y }: { state: Heat; x: number; y: number }) {
  if (state === "due") return <rect class="h-due" x={x + 2} y={y + 2} width="2" height="2" />;
  if (state === "fail") return <rect class="h-fail" x={x - 1} y={y - 1} width="8" height="8" rx="1" />;
  return <rect class={`h-${state}`} x={x} y={y} width="6" height="6" />;
}
