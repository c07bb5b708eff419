/* A run as the page thinks of it: visits of nodes, their tasks and attempts, made of the records and events of the API.

   A *visit* is what one node did in one superstep: one task, or the many of a fan-out. Steps come with the run; events add
   what steps do not keep: each attempt with its error, and when the next one begins. */

import type { DrawnNode, Run, RunError, RunEvent, Step, Wait } from "../../api/types";
import type { Status } from "../../parts/glyphs";

export interface Attempt {
  number: number;
  startedAt: number;
  endedAt: number | null;
  error: RunError | null;
  /** When the next attempt begins, if this one failed and another follows. */
  nextAt: number | null;
}

export interface Task {
  step: Step;
  status: Status;
  attempts: Attempt[];
}

export interface Visit {
  /** `node.superstep`: how addresses name it. */
  key: string;
  name: string;
  superstep: number;
  status: Status;
  tasks: Task[];
  startedAt: number;
  endedAt: number | null;
  counts: Counts;
}

export interface Counts {
  done: number;
  running: number;
  retrying: number;
  failed: number;
  waiting: number;
  /** Stopped because another task has failed, or the run was cancelled. */
  stopped: number;
  due: number;
}

const time = (at: string | null): number | null => (at ? Date.parse(at) : null);

/** Return the attempts at each step, by its id. */
export function readAttempts(events: RunEvent[]): Map<string, Attempt[]> {
  const byStep = new Map<string, Attempt[]>();
  for (const event of events) {
    if (!event.stepRunId) continue;
    const at = Date.parse(event.createdAt);
    let attempts = byStep.get(event.stepRunId);
    if (!attempts) byStep.set(event.stepRunId, (attempts = []));
    const last = attempts[attempts.length - 1];
    switch (event.eventType) {
      case "STEP_STARTED":
        if (!last || last.endedAt !== null) attempts.push(begin(attempts.length + 1, last?.nextAt ?? at));
        break;
      case "STEP_FAILED":
        endAttempt(attempts, at, (event.payload.error as unknown as RunError | null) ?? null, Number(event.payload.attempt ?? 0));
        break;
      case "STEP_RETRY_SCHEDULED":
        if (last && typeof event.payload.at === "string") last.nextAt = Date.parse(event.payload.at);
        break;
      case "STEP_COMPLETED":
        endAttempt(attempts, at, null, 0);
        break;
    }
  }
  return byStep;
}

/** Return the agents that steps have called, by the id of the step. */
export function readAgents(events: RunEvent[]): Map<string, string> {
  const agents = new Map<string, string>();
  for (const { eventType, stepRunId, payload } of events) {
    if (eventType === "STEP_STARTED" && stepRunId && typeof payload.agent === "string") agents.set(stepRunId, payload.agent);
  }
  return agents;
}

function begin(number: number, startedAt: number): Attempt {
  return { number, startedAt, endedAt: null, error: null, nextAt: null };
}

function endAttempt(attempts: Attempt[], at: number, error: RunError | null, number: number): void {
  let last = attempts[attempts.length - 1];
  if (!last || last.endedAt !== null) {
    last = begin(number || attempts.length + 1, last?.nextAt ?? last?.endedAt ?? at);
    attempts.push(last);
  }
  last.endedAt = at;
  last.error = error;
}

/** A time in which a step waited for somebody, for something or for a time. */
export interface Pause {
  from: number;
  to: number | null;
}

/** Return the times in which steps waited, by their id. */
export function readPauses(events: RunEvent[]): Map<string, Pause[]> {
  const byStep = new Map<string, Pause[]>();
  for (const event of events) {
    if (!event.stepRunId) continue;
    const at = Date.parse(event.createdAt);
    const pauses = byStep.get(event.stepRunId) ?? [];
    const open = pauses.find((pause) => pause.to === null);
    if (event.eventType === "STEP_WAITING") {
      if (!open) byStep.set(event.stepRunId, [...pauses, { from: at, to: null }]);
    } else if (open && /SIGNAL_RECEIVED|TIMER_FIRED|STEP_COMPLETED|STEP_FAILED/.test(event.eventType)) open.to = at;
  }
  return byStep;
}

/** Return the visits of a run in the order in which they began. */
export function readVisits(steps: Step[], attempts: Map<string, Attempt[]>, waits: Wait[], now: number): Visit[] {
  const kindOf = new Map(waits.map((wait) => [wait.stepRunId, wait.kind]));
  const groups = new Map<string, Task[]>();
  for (const step of steps) {
    const key = `${step.stepName}.${step.superstep}`;
    const tried = attemptsOf(step, attempts.get(step.id) ?? []);
    const task: Task = { step, status: statusOf(step, tried, kindOf.get(step.id), now), attempts: tried };
    const tasks = groups.get(key);
    if (tasks) tasks.push(task);
    else groups.set(key, [task]);
  }
  const visits = [...groups].map(([key, tasks]) => ({ ...gather(tasks), key, name: (tasks[0] as Task).step.stepName, superstep: (tasks[0] as Task).step.superstep }));
  return visits.sort((a, b) => a.superstep - b.superstep || a.startedAt - b.startedAt);
}

/** The attempts at a step: the first begins when the step has, which may be later than its superstep. */
function attemptsOf(step: Step, attempts: Attempt[]): Attempt[] {
  const [first, ...more] = attempts;
  const startedAt = time(step.startedAt);
  if (!first || startedAt === null) return step.status === "pending" ? [] : attempts;
  return startedAt > first.startedAt && startedAt <= (first.endedAt ?? startedAt) ? [{ ...first, startedAt }, ...more] : attempts;
}

/** Return what the tasks of a visit say about it together. */
export function gather(tasks: Task[]): Pick<Visit, "tasks" | "status" | "startedAt" | "endedAt" | "counts"> {
  tasks.sort((a, b) => a.step.position - b.step.position);
  const counts = count(tasks);
  const ends = tasks.map((task) => time(task.step.completedAt));
  return {
    tasks,
    counts,
    status: together(tasks, counts),
    startedAt: tasks.reduce((least, task) => Math.min(least, time(task.step.startedAt) ?? Infinity), Infinity),
    endedAt: ends.some((end) => end === null) ? null : ends.reduce<number>((most, end) => Math.max(most, end as number), -Infinity),
  };
}

const NONE: Counts = { done: 0, running: 0, retrying: 0, failed: 0, waiting: 0, stopped: 0, due: 0 };

function statusOf(step: Step, attempts: Attempt[], wait: Wait["kind"] | undefined, now: number): Status {
  switch (step.status) {
    case "running": {
      const last = attempts[attempts.length - 1];
      return last?.endedAt && last.error && (last.nextAt ?? 0) > now ? "retrying" : "running";
    }
    case "failed":
      return step.error?.code === "STOPPED" ? "cancelled" : "failed";
    case "waiting":
      return wait === "timer" || wait === "event" ? "timer" : "waiting";
    default:
      return step.status;
  }
}

function count(tasks: Task[]): Counts {
  const counts = { ...NONE };
  for (const { status } of tasks) {
    if (status === "completed" || status === "skipped") counts.done += 1;
    else if (status === "running") counts.running += 1;
    else if (status === "retrying") counts.retrying += 1;
    else if (status === "failed") counts.failed += 1;
    else if (status === "cancelled") counts.stopped += 1;
    else if (status === "waiting" || status === "timer") counts.waiting += 1;
    else counts.due += 1;
  }
  return counts;
}

/** The status of a visit: the one among its tasks that asks most for a look. */
function together(tasks: Task[], counts: Counts): Status {
  const [first] = tasks;
  if (tasks.length === 1 && first) return first.status;
  if (counts.failed) return "failed";
  if (counts.waiting) return tasks.find((task) => task.status === "waiting" || task.status === "timer")?.status ?? "waiting";
  if (counts.running) return "running";
  if (counts.retrying) return "retrying";
  if (counts.stopped) return "cancelled";
  if (counts.due) return counts.done ? "running" : "pending"; // tasks of a fan-out that begin in a moment
  return tasks.every((task) => task.status === "skipped") ? "skipped" : "completed";
}

/** The last attempt of a visit that is to come or at work, with its number. */
export function lastAttempt(visit: Visit): Attempt | undefined {
  const attempts = visit.tasks[0]?.attempts ?? [];
  return attempts[attempts.length - 1];
}

/** Return the visit with a key. A key of a step inside a subgraph leads to the visit of the box around it. */
export function findVisit(key: string | null, visits: Visit[]): Visit | undefined {
  return visits.find((visit) => key === visit.key || key?.startsWith(`${visit.key}/`));
}

export function attemptCount(task: Task): number {
  return Math.max(task.step.attempt, task.attempts.length);
}

/** Return the visit that is most worth a look: what failed, asks or runs, or else the last one. */
export function mainVisit(run: Run, visits: Visit[]): Visit | undefined {
  const find = (...statuses: Status[]): Visit | undefined => visits.findLast((visit) => statuses.includes(visit.status));
  const failed = run.status === "failed" ? (visits.findLast((visit) => visit.name === run.error?.step) ?? find("failed")) : undefined;
  return failed ?? find("waiting", "timer") ?? find("retrying") ?? find("running") ?? visits[visits.length - 1];
}

/** Return the id of the drawn node of a visit. Agents of a network are drawn apart, though one node runs them all. */
export function drawnIds(nodes: DrawnNode[], visits: Visit[], agentOf: (visit: Visit) => string | null): Map<string, Visit[]> {
  const byId = new Map<string, Visit[]>();
  const known = new Set(nodes.map((node) => node.id));
  for (const visit of visits) {
    const agent = agentOf(visit);
    const id = agent && known.has(`${visit.name}:${agent}`) ? `${visit.name}:${agent}` : visit.name;
    byId.set(id, [...(byId.get(id) ?? []), visit]);
  }
  return byId;
}
