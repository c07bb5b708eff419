/* What each node of the drawing says: its status and at most two lines, made of the visits of the run. */

import type { DrawnNode, Wait } from "../../../api/types";
import { cutMiddle, formatClock, formatCost, formatCount, formatDuration } from "../../../format";
import type { Status } from "../../../parts/glyphs";
import { texts } from "../../../texts";
import { attemptCount, type Counts, findVisit, lastAttempt, type Task, type Visit } from "../model";

export interface NodeView {
  id: string;
  kind: DrawnNode["kind"];
  name: string;
  status: Status;
  meta: string;
  /** The line in the colour of the status. */
  hot: string;
  badge: string;
  visits: Visit[];
  /** The visit that is shown: the last one. */
  visit: Visit | null;
  heat: Heat[];
  isOpenable: boolean;
  /** A node of a subgraph that is open, whose steps are not read yet: it has no status. */
  isInner: boolean;
  /** It stands for a chain of steps. */
  isChain: boolean;
  width: number;
  height: number;
}

const words = texts.run.graph;
const HEAT_COLUMNS = 38;
const NAME_WIDTH = 7.2;

/** A chain that is folded: its status is that of the step in it that asks most for a look, which the second line names. */
export function viewChain(node: DrawnNode, members: { name: string; visits: Visit[] }[]): NodeView {
  const lasts = members.map(({ name, visits }) => ({ name, visit: visits[visits.length - 1] ?? null }));
  const begun = lasts.filter(({ visit }) => visit !== null);
  const done = begun.filter(({ visit }) => visit?.status === "completed" || visit?.status === "skipped").length;
  const first = MOST_PRESSING.map((status) => begun.find(({ visit }) => visit?.status === status)).find(Boolean) ?? begun[begun.length - 1];
  const isDone = done === members.length;
  const isQuiet = !first?.visit || first.visit.status === "completed" || first.visit.status === "skipped";
  const visits = members.flatMap((member) => member.visits);
  const view: NodeView = {
    id: node.id,
    kind: node.kind,
    name: node.label,
    status: isDone ? "completed" : isQuiet ? "pending" : (first?.visit?.status ?? "pending"),
    meta: isDone ? words.folded(done) : begun.length ? words.part(done, members.length) : words.noStep,
    hot: isQuiet ? "" : (first?.name ?? ""),
    badge: "",
    visits,
    visit: first?.visit ?? null,
    heat: [],
    isOpenable: true,
    isInner: false,
    isChain: true,
    width: 136,
    height: isQuiet ? 44 : 60,
  };
  return fit(view, 33 + 30);
}

/** What a person looks at first, of several steps. */
const MOST_PRESSING: Status[] = ["failed", "waiting", "retrying", "running", "timer", "paused", "cancelled"];

interface Context {
  visits: Visit[];
  waits: Wait[];
  cost: (visit: Visit) => number;
  joins: number;
  now: number;
  canOpen: boolean;
  isInner: boolean;
}

export function viewNode(node: DrawnNode, { visits, waits, cost, joins, now, canOpen, isInner }: Context): NodeView {
  const visit = visits[visits.length - 1] ?? null;
  const view: NodeView = {
    id: node.id,
    kind: node.kind,
    name: node.label,
    status: visit?.status ?? "pending",
    meta: "",
    hot: "",
    badge: "",
    visits,
    visit,
    heat: [],
    isOpenable: node.kind === "subgraph" && canOpen,
    isInner,
    isChain: false,
    width: 136,
    height: 44,
  };
  if (node.kind === "start" || node.kind === "end") return { ...view, width: 10, height: 10 };
  if (visit && visit.tasks.length > 1) return viewFanOut(view, visit);
  if (!visit) view.meta = joins > 1 ? words.joins(joins) : node.kind === "unreachable" ? words.unreachable : "";
  else describe(view, visit, waits, cost, now);
  return fit(view, 33 + (view.isOpenable ? 30 : 12));
}

function describe(view: NodeView, visit: Visit, waits: Wait[], cost: (visit: Visit) => number, now: number): void {
  const [task] = visit.tasks as [Task];
  const attempts = attemptCount(task);
  const spent = view.visits.reduce((sum, each) => sum + cost(each), 0);
  const took = (visit.endedAt ?? now) - visit.startedAt;
  const wait = waits.find((each) => each.stepRunId === task.step.id);
  switch (visit.status) {
    case "retrying": {
      const next = lastAttempt(visit)?.nextAt ?? now;
      view.meta = words.attempt(attempts);
      view.hot = words.next(formatClock((next - now) / 1000));
      break;
    }
    case "waiting":
      view.meta = words.asks;
      view.hot = formatClock((now - visit.startedAt) / 1000);
      break;
    case "timer":
      view.meta = wait?.kind === "event" && wait.signalType ? words.waits(wait.signalType.startsWith("__") ? texts.sentence.children : wait.signalType) : words.sleeps;
      view.hot = wait?.dueAt ? texts.sentence.until(new Date(wait.dueAt).toLocaleTimeString()) : formatClock((now - visit.startedAt) / 1000);
      break;
    case "failed":
      view.meta = attempts > 1 ? texts.run.inspector.attempts(attempts) : formatDuration(took / 1000);
      view.hot = task.step.error?.code ?? "";
      break;
    case "running":
      view.meta = attempts > 1 ? words.attempt(attempts) : "";
      view.hot = formatClock(took / 1000);
      break;
    default: {
      const facts = [view.visits.length > 1 ? words.visits(view.visits.length) : formatDuration(took / 1000), spent ? formatCost(spent) : ""];
      view.meta = facts.filter(Boolean).join(" · ");
    }
  }
  view.height = view.meta && view.hot ? 60 : 44;
  if (!view.meta) [view.meta, view.hot] = ["", view.hot];
}

function viewFanOut(view: NodeView, visit: Visit): NodeView {
  const fan = fit({ ...view, badge: words.times(visit.tasks.length), hot: countWords(visit.counts), heat: heatOf(visit.tasks, HEAT_COLUMNS), height: 88 }, 33 + 60);
  return { ...fan, width: Math.max(176, fan.width) };
}

/** Return the id of the node that shows what a key names: a visit, a step inside a box that is open, or else its box. */
export function findNode(views: NodeView[], key: string | null, visits: Visit[]): string | undefined {
  const nodeOf = (each: string | null | undefined): string | undefined => views.find((view) => view.visits.some((visit) => visit.key === each))?.id;
  return nodeOf(key) ?? nodeOf(findVisit(key, visits)?.key);
}

export function countWords(counts: Counts): string {
  const tasks = texts.run.tasks;
  const parts = [
    counts.done ? tasks.done(counts.done) : "",
    counts.running ? tasks.now(counts.running) : "",
    counts.retrying ? tasks.again(counts.retrying) : "",
    counts.failed ? tasks.failed(counts.failed) : "",
    counts.waiting ? `${formatCount(counts.waiting)} ${texts.status.timer}` : "",
    counts.stopped ? tasks.stopped(counts.stopped) : "",
    counts.due ? tasks.due(counts.due) : "",
  ].filter(Boolean);
  return parts.slice(0, 3).join(" · ");
}

/** Widen a node to its name, up to 220; then the middle of the name is cut. */
function fit(view: NodeView, around: number): NodeView {
  const longest = Math.max(view.name.length * NAME_WIDTH, view.meta.length * 6, view.hot.length * (view.heat.length ? 5 : 6));
  const width = Math.min(220, Math.max(136, Math.ceil(longest + around)));
  return { ...view, width, name: cutMiddle(view.name, Math.floor((width - around) / NAME_WIDTH) + 1) };
}

export type Heat = "done" | "run" | "fail" | "due";
const WORST: Heat[] = ["fail", "run", "due", "done"];

/** Return one cell for each share of the tasks, in their order: the worst state among them. */
export function heatOf(tasks: Task[], most: number): Heat[] {
  const columns = Math.min(most, tasks.length);
  return Array.from({ length: columns }, (_, column) => {
    const part = tasks.slice(Math.floor((column * tasks.length) / columns), Math.floor(((column + 1) * tasks.length) / columns));
    const states = new Set(part.map(({ status }) => heatState(status)));
    return WORST.find((state) => states.has(state)) ?? "due";
  });
}

function heatState(status: Status): Heat {
  if (status === "completed" || status === "skipped") return "done";
  if (status === "failed" || status === "retrying") return "fail";
  return status === "pending" || status === "cancelled" ? "due" : "run";
}
