/* The rows of the waterfall: one for each node, and below it what is worth a row of its own. */

import type { Status } from "../../../parts/glyphs";
import { formatClock, formatCount, formatDuration } from "../../../format";
import { texts } from "../../../texts";
import { type Attempt, attemptCount, type Pause, type Task, type Visit } from "../model";
import type { RunScene } from "../scene";

export type BarKind = "done" | "run" | "fail" | "wait" | "model" | "queue" | "back" | "mark";

export interface Bar {
  kind: BarKind;
  from: number;
  to: number;
}

export interface FallRow {
  key: string;
  /** The visit that a click chooses; null for a row that cannot be chosen. */
  visit: string | null;
  level: 0 | 1;
  status: Status | null;
  name: string;
  note: string;
  bars: Bar[];
  /** How many tasks of a fan-out ended in each part of the period. */
  comb: { from: number; to: number; counts: number[] } | null;
  took: string;
  text: { at: number; words: string } | null;
}

const COMB = 80;
const SHOWN_TASKS = 3;

export function fallRows(scene: RunScene, mode: "steps" | "calls", chosenKey: string | null): FallRow[] {
  const { now } = scene;
  const rows: FallRow[] = [];
  const nodes = scene.graph?.nodes ?? [];
  const labels = new Map(nodes.map((node) => [node.id, node.label]));
  for (const [id, visits] of sortGroups(scene.byNode)) {
    const last = visits[visits.length - 1];
    if (!last || (isInside(id) && mode === "calls")) continue;
    const chosen = visits.find((visit) => visit.key === chosenKey);
    const shown = chosen ?? last;
    rows.push({ ...nodeRow(labels.get(id) ?? nameInside(id), id, visits, shown, scene), level: isInside(id) ? 1 : 0 });
    if (mode === "calls") rows.push(...callRows(scene, id, visits));
    else if (shown.tasks.length > 1) rows.push(...taskRows(shown, now));
    else if (shown === chosen && shown.tasks[0] && attemptCount(shown.tasks[0]) > 1) rows.push(...attemptRows(shown, shown.tasks[0], now));
  }
  for (const queued of queueBars(scene)) {
    const row = rows.find((each) => each.level === 0 && each.bars.some((bar) => bar.to > queued.to)) ?? rows[0];
    row?.bars.unshift(queued);
  }
  for (const node of nodes) {
    if (node.kind === "start" || node.kind === "end" || scene.byNode.has(node.id)) continue;
    if (scene.hasEnded || scene.run.status === "cancelled") continue;
    rows.push({ ...EMPTY, key: node.id, status: "pending", name: node.label, took: texts.none });
  }
  return rows;
}

function isInside(id: string): boolean {
  return id.includes("/");
}

/** The name of a node inside a box: the last part of its id. */
function nameInside(id: string): string {
  return id.slice(id.lastIndexOf("/") + 1).split(":").pop() ?? id;
}

/** The visits by node, in the order in which nodes were visited first; those inside a box follow it. */
function sortGroups(byNode: Map<string, Visit[]>): [string, Visit[]][] {
  const sorted = [...byNode].sort(([, a], [, b]) => (a[0]?.startedAt ?? 0) - (b[0]?.startedAt ?? 0));
  const inner = sorted.filter(([id]) => isInside(id));
  return sorted.filter(([id]) => !isInside(id)).flatMap((group) => [group, ...inner.filter(([id]) => id.startsWith(`${group[0]}/`))]);
}

const EMPTY: FallRow = { key: "", visit: null, level: 0, status: null, name: "", note: "", bars: [], comb: null, took: "", text: null };

/** The times in which the run was due and no worker had taken it: before it began, and after each wait. */
function queueBars(scene: RunScene): Bar[] {
  if (scene.queued.length) return scene.queued.map(({ startedAt, endedAt }) => ({ kind: "queue", from: Date.parse(startedAt), to: endedAt ? Date.parse(endedAt) : scene.now }));
  const from = Date.parse(scene.run.createdAt);
  const to = scene.run.startedAt ? Date.parse(scene.run.startedAt) : scene.now;
  return to > from ? [{ kind: "queue", from, to }] : [];
}

function nodeRow(name: string, id: string, visits: Visit[], shown: Visit, scene: RunScene): FallRow {
  const { now } = scene;
  const isFan = shown.tasks.length > 1;
  const attempts = shown.tasks[0] && !isFan ? attemptCount(shown.tasks[0]) : 1;
  const times = isFan ? shown.tasks.length : visits.length;
  const took = visits.reduce((sum, visit) => sum + Math.max(0, (visit.endedAt ?? now) - visit.startedAt), 0) / 1000;
  const next = shown.tasks[0]?.attempts[attempts - 1]?.nextAt;
  const isLive = shown.endedAt === null && !["failed", "cancelled"].includes(shown.status);
  return {
    ...EMPTY,
    key: id,
    visit: shown.key,
    status: shown.status,
    name,
    note: times > 1 ? `×${formatCount(times)}` : attempts > 1 && shown.status === "failed" ? texts.run.error.tries(attempts) : "",
    bars: visits.flatMap((visit) => (visit.tasks.length > 1 ? [] : taskBars(visit.tasks[0] as Task, now, scene.pauses))),
    comb: isFan && Number.isFinite(shown.startedAt) ? combOf(shown, now) : null,
    took: shown.status === "retrying" && next ? `in ${formatClock((next - now) / 1000)}` : isLive ? formatClock(took) : formatDuration(took),
  };
}

/** One bar for each attempt, with the back-off between them; one bar if nothing failed, with its waits hatched. */
export function taskBars(task: Task, now: number, pauses: Map<string, Pause[]>): Bar[] {
  const { step, status, attempts } = task;
  const from = step.startedAt ? Date.parse(step.startedAt) : now;
  const to = step.completedAt ? Date.parse(step.completedAt) : now;
  if (attempts.some((attempt) => attempt.error)) {
    return attempts.flatMap((attempt, index) => attemptBars(attempt, attempts[index + 1], status, now));
  }
  const waited = pauses.get(step.id) ?? [];
  if (!waited.length) return [{ kind: kindOf(status), from, to }];
  const bars: Bar[] = [];
  let at = from;
  for (const pause of waited) {
    if (pause.from > at) bars.push({ kind: "done", from: at, to: pause.from });
    at = pause.to ?? to;
    bars.push({ kind: "wait", from: pause.from, to: at });
  }
  if (to > at) bars.push({ kind: kindOf(status === "waiting" || status === "timer" ? "completed" : status), from: at, to });
  return bars;
}

function attemptBars(attempt: Attempt, following: Attempt | undefined, status: Status, now: number): Bar[] {
  const end = attempt.endedAt ?? now;
  const bars: Bar[] = [{ kind: attempt.error ? "fail" : attempt.endedAt ? "done" : kindOf(status), from: attempt.startedAt, to: end }];
  const next = following?.startedAt ?? attempt.nextAt;
  if (attempt.error && next && next > end) bars.push({ kind: "back", from: end, to: next });
  return bars;
}

function kindOf(status: Status): BarKind {
  if (status === "failed" || status === "retrying") return "fail";
  if (status === "cancelled") return "done";
  if (status === "running") return "run";
  return status === "waiting" || status === "timer" ? "wait" : "done";
}

function attemptRows(visit: Visit, task: Task, now: number): FallRow[] {
  return task.attempts.map((attempt, index) => {
    const following = task.attempts[index + 1];
    const end = attempt.endedAt ?? now;
    const next = following?.startedAt ?? attempt.nextAt;
    return {
      ...EMPTY,
      key: `${visit.key} ${attempt.number}`,
      visit: visit.key,
      level: 1,
      name: texts.run.fall.attempt(attempt.number),
      bars: attemptBars(attempt, following, task.status, now),
      took: formatDuration((end - attempt.startedAt) / 1000),
      text: attempt.error && next && next > end ? { at: next, words: `${formatDuration((next - end) / 1000)}` } : null,
    };
  });
}

/** The tasks of a fan-out that matter: what failed or tries again, then what runs longest; and how many more there are. */
function taskRows(visit: Visit, now: number): FallRow[] {
  const order: Status[] = ["failed", "retrying", "waiting", "timer", "running"];
  const matter = visit.tasks
    .filter((task) => order.includes(task.status) || attemptCount(task) > 1)
    .sort((a, b) => rankOf(a.status, order) - rankOf(b.status, order))
    .slice(0, SHOWN_TASKS);
  const rows: FallRow[] = matter.map((task) => ({
    ...EMPTY,
    key: task.step.id,
    visit: visit.key,
    level: 1,
    name: texts.run.tasks.task(task.step.position + 1),
    bars: taskBars(task, now, new Map()),
    took: formatDuration(((task.step.completedAt ? Date.parse(task.step.completedAt) : now) - Date.parse(task.step.startedAt ?? "")) / 1000),
  }));
  const more = visit.tasks.length - matter.length;
  if (more) rows.push({ ...EMPTY, key: `${visit.key} more`, visit: visit.key, level: 1, name: texts.run.tasks.more(more) });
  return rows;
}

function rankOf(status: Status, order: Status[]): number {
  const rank = order.indexOf(status);
  return rank < 0 ? order.length : rank;
}

/** Count the tasks that ended in each part of the time that a fan-out takes. */
function combOf(visit: Visit, now: number): FallRow["comb"] {
  const from = visit.startedAt;
  const to = visit.endedAt ?? now;
  const counts = new Array<number>(COMB).fill(0);
  for (const { step } of visit.tasks) {
    if (!step.completedAt || step.status !== "completed") continue;
    const share = (Date.parse(step.completedAt) - from) / Math.max(1, to - from);
    const column = Math.min(COMB - 1, Math.max(0, Math.floor(share * COMB)));
    counts[column] = (counts[column] ?? 0) + 1;
  }
  return { from, to, counts };
}

/** Calls of models and tools below their node: a bar from the call before, or from the beginning of the step. */
function callRows(scene: RunScene, id: string, visits: Visit[]): FallRow[] {
  const byName = new Map<string, { note: string; bars: Bar[] }>();
  for (const visit of visits) {
    let from = visit.startedAt;
    const calls = [
      ...scene.callsOf(visit).map((call) => ({ name: call.model, note: texts.run.fall.model, at: Date.parse(call.createdAt) })),
      ...scene.toolsOf(visit).map((event) => ({ name: String(event.payload.tool), note: texts.run.fall.tool, at: Date.parse(event.createdAt) })),
    ].sort((a, b) => a.at - b.at);
    for (const call of calls) {
      const row = byName.get(call.name) ?? { note: call.note, bars: [] };
      row.bars.push({ kind: "model", from, to: call.at });
      byName.set(call.name, row);
      from = call.at;
    }
  }
  return [...byName].map(([name, { note, bars }]) => ({
    ...EMPTY,
    key: `${id} ${name}`,
    visit: visits[visits.length - 1]?.key ?? null,
    level: 1,
    name,
    note: bars.length > 1 ? `${note} ×${bars.length}` : note,
    bars,
    took: formatDuration(bars.reduce((sum, bar) => sum + bar.to - bar.from, 0) / 1000),
  }));
}
