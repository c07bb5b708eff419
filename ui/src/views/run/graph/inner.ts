/* What the nodes inside subgraphs did, as visits, by the ids that they have in a drawing in which their box is open. */

import type { InnerStep, Step, TracedCall } from "../../../api/types";
import { type Attempt, gather, type Task, type Visit } from "../model";

/** A visit inside a subgraph. */
export interface InnerVisit extends Visit {
  /** The key of the visit of the box. */
  parent: string;
  /** The subgraph in which it was: visits of the same level are numbered by its supersteps. */
  level: string;
  calls: TracedCall[];
}

/** Return the visits inside the boxes of a run. `boxOf` returns the id of the drawn node of a visit. */
export function readInner(visits: Visit[], inner: Map<string, InnerStep[]>, boxOf: (visit: Visit) => string): Map<string, InnerVisit[]> {
  const byNode = new Map<string, InnerVisit[]>();
  for (const visit of visits) {
    const groups = new Map<string, InnerStep[]>();
    for (const step of visit.tasks.flatMap((task) => inner.get(task.step.id) ?? [])) {
      const name = `${step.path.slice(1).join("/")}.${step.superstep}`;
      groups.set(`${step.parentId ?? ""} ${name}`, [...(groups.get(`${step.parentId ?? ""} ${name}`) ?? []), step]);
    }
    const used = new Map<string, number>();
    for (const steps of groups.values()) {
      const [first] = steps as [InnerStep];
      const name = `${visit.key}/${first.path.slice(1).join("/")}.${first.superstep}`;
      const times = (used.get(name) ?? 0) + 1;
      used.set(name, times);
      const id = `${boxOf(visit)}/${first.path.slice(1).join(":")}`;
      const found: InnerVisit = { ...gather(steps.map(toTask)), key: times > 1 ? `${name}~${times}` : name, name: first.path[first.path.length - 1] ?? "", superstep: first.superstep, parent: visit.key, level: first.parentId ?? visit.key, calls: steps.flatMap((step) => step.calls) };
      byNode.set(id, [...(byNode.get(id) ?? []), found]);
    }
  }
  return byNode;
}

function toTask(inner: InnerStep, position: number): Task {
  const attempts: Attempt[] = inner.attempts.map((attempt) => ({
    number: attempt.number,
    startedAt: Date.parse(attempt.startedAt ?? inner.startedAt ?? ""),
    endedAt: attempt.endedAt ? Date.parse(attempt.endedAt) : null,
    error: attempt.error,
    nextAt: attempt.retryAt ? Date.parse(attempt.retryAt) : null,
  }));
  const last = inner.attempts[inner.attempts.length - 1];
  const isBetween = inner.status === "running" && last?.error && last.endedAt && Date.parse(last.retryAt ?? "") > Date.now();
  const step: Step = {
    id: inner.id,
    workflowRunId: "",
    stepName: inner.path[inner.path.length - 1] ?? "",
    stepType: "node",
    status: inner.status,
    attempt: Math.max(1, inner.attempts.length),
    superstep: inner.superstep,
    position,
    output: null,
    error: inner.status === "failed" ? (last?.error ?? null) : null,
    waitUntil: null,
    signalType: null,
    startedAt: inner.startedAt,
    completedAt: inner.endedAt,
  };
  return { step, status: isBetween ? "retrying" : inner.status, attempts };
}
