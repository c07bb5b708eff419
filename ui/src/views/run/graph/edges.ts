/* How an edge is drawn: whether the run has taken it, takes it now, will certainly take it, or may. */

import type { DrawnEdge } from "../../../api/types";
import type { Visit } from "../model";

export type EdgeLook = "taken" | "live" | "maybe" | "";

const AT_WORK = new Set(["running", "waiting", "timer", "retrying"]);

/** Return how often an edge was taken: for each visit of its target that follows one of its source. */
export function timesTaken(edge: DrawnEdge, visits: Map<string, Visit[]>, hasBegun: boolean, hasEnded: boolean): { times: number; isLive: boolean } {
  const targets = visitsOf(edge.target, visits);
  if (edge.source === "__start__") return { times: hasBegun && targets.length ? 1 : 0, isLive: isAtWork(targets[0]) && targets.length === 1 };
  const sources = visitsOf(edge.source, visits).map((visit) => visit.superstep);
  if (edge.target === "__end__") {
    const last = Math.max(0, ...[...visits.values()].flat().map((visit) => visit.superstep));
    return { times: hasEnded && sources.includes(last) ? 1 : 0, isLive: false };
  }
  const follow = edge.kind === "join" ? targets.filter((visit) => sources.some((step) => step < visit.superstep)) : targets.filter((visit) => sources.includes(visit.superstep - 1));
  return { times: follow.length, isLive: isAtWork(follow[follow.length - 1]) };
}

/** The visits of a node; those of its box, for a node of a subgraph that is open. */
function visitsOf(id: string, visits: Map<string, Visit[]>): Visit[] {
  return visits.get(id) ?? visits.get(id.split("/")[0] ?? "") ?? [];
}

function isAtWork(visit: Visit | undefined): boolean {
  return visit !== undefined && AT_WORK.has(visit.status);
}

export function lookOf(edge: DrawnEdge, taken: { times: number; isLive: boolean }): EdgeLook {
  if (taken.isLive) return "live";
  if (taken.times) return "taken";
  return edge.kind === "conditional" || edge.kind === "declared" ? "maybe" : "";
}
