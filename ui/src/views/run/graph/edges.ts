/* How an edge is drawn: whether the run has taken it, takes it now, will certainly take it, or may. */

import type { DrawnEdge } from "../../../api/types";
import type { Visit } from "../model";
import type { InnerVisit } from "./inner";

export type EdgeLook = "taken" | "live" | "maybe" | "";

const AT_WORK = new Set(["running", "waiting", "timer", "retrying"]);

/** Return how often an edge was taken: for each visit of its target that follows one of its source. */
export function timesTaken(edge: DrawnEdge, visits: Map<string, Visit[]>, hasBegun: boolean, hasEnded: boolean): { times: number; isLive: boolean } {
  const [sourceBox, targetBox] = [boxOf(edge.source), boxOf(edge.target)];
  if (sourceBox !== null && sourceBox === targetBox) return timesWithin(edge, visits);
  // Into a subgraph that is open, or out of it: what counts are the visits of its box, and whether the node inside was reached.
  if ([edge.source, edge.target].some((id) => isUnreached(id, visits))) return { times: 0, isLive: false };
  const targets = visits.get(targetBox ?? edge.target) ?? [];
  if (edge.source === "__start__") return { times: hasBegun && targets.length ? 1 : 0, isLive: isAtWork(targets[0]) && targets.length === 1 };
  const sources = (visits.get(sourceBox ?? edge.source) ?? []).map((visit) => visit.superstep);
  if (edge.target === "__end__") {
    const last = Math.max(0, ...[...visits].flatMap(([id, each]) => (boxOf(id) === null ? each.map((visit) => visit.superstep) : [])));
    return { times: hasEnded && sources.includes(last) ? 1 : 0, isLive: false };
  }
  const follow = edge.kind === "join" ? targets.filter((visit) => sources.some((step) => step < visit.superstep)) : targets.filter((visit) => sources.includes(visit.superstep - 1));
  return { times: follow.length, isLive: isAtWork(follow[follow.length - 1]) };
}

/** The box of a node of a subgraph that is open; null for other nodes. */
function boxOf(id: string): string | null {
  return id.includes("/") ? id.slice(0, id.indexOf("/")) : null;
}

/** Return whether a node inside a box was not reached, as far as the steps inside are known. */
function isUnreached(id: string, visits: Map<string, Visit[]>): boolean {
  const box = boxOf(id);
  return box !== null && !visits.has(id) && [...visits.keys()].some((each) => each.startsWith(`${box}/`));
}

/** How often an edge between two nodes inside a box was taken. Levels below are numbered for themselves: there time tells. */
function timesWithin(edge: DrawnEdge, visits: Map<string, Visit[]>): { times: number; isLive: boolean } {
  const sources = (visits.get(edge.source) ?? []) as InnerVisit[];
  const precedes = (one: InnerVisit, other: InnerVisit): boolean => {
    if (one.parent !== other.parent) return false;
    if (one.level !== other.level) return one.startedAt <= other.startedAt;
    return edge.kind === "join" ? one.superstep < other.superstep : one.superstep === other.superstep - 1;
  };
  const follow = ((visits.get(edge.target) ?? []) as InnerVisit[]).filter((target) => sources.some((source) => precedes(source, target)));
  return { times: follow.length, isLive: isAtWork(follow[follow.length - 1]) };
}

function isAtWork(visit: Visit | undefined): boolean {
  return visit !== undefined && AT_WORK.has(visit.status);
}

export function lookOf(edge: DrawnEdge, taken: { times: number; isLive: boolean }): EdgeLook {
  if (taken.isLive) return "live";
  if (taken.times) return "taken";
  return edge.kind === "conditional" || edge.kind === "declared" ? "maybe" : "";
}
