/* One side of a comparison: a run with its steps and the history of its thread, or a thread alone. The address names it
   with the id of the run, or with `thread:` and the name of the thread. */

import { useRef } from "preact/hooks";
import type { Signal } from "@preact/signals";
import { api } from "../../api/client";
import type { Checkpoint, CostTotal, Definition, Run } from "../../api/types";
import { type Loaded, useLoad } from "../../parts/load";
import { may } from "../../state/session";
import { readVisits, type Visit } from "../run/model";
import { readStates, type Trail } from "./align";

export const THREAD = "thread:";
const MOST_CHECKPOINTS = 1000;
const ENDED = ["completed", "failed", "cancelled"];

export interface Side {
  id: string;
  run: Run | null;
  threadId: string;
  trail: Trail;
  /** The checkpoints of the thread, the newest first; null if the key may not read them. */
  history: Checkpoint[] | null;
  cost: CostTotal | null;
  /** The version of the graph with which the run has begun; null if the key may not read definitions. */
  version: string | null;
}

export async function loadSide(id: string, signal: AbortSignal): Promise<Side> {
  if (id.startsWith(THREAD)) {
    const threadId = id.slice(THREAD.length);
    return { id, run: null, threadId, trail: { visits: [], states: new Map() }, history: await api.history(threadId, MOST_CHECKPOINTS, signal), cost: null, version: null };
  }
  const { stepRuns, ...run } = await api.run(id, signal);
  const visits = readVisits(stepRuns, new Map(), [], Date.now());
  const [history, cost, definition] = await Promise.all([loadHistory(run, visits, signal), api.cost(id, signal), loadDefinition(run, signal)]);
  return { id, run, threadId: run.threadId, trail: { visits, states: readStates(run.id, history ?? []) }, history, cost: cost.total, version: definition?.version ?? null };
}

async function loadDefinition(run: Run, signal: AbortSignal): Promise<Definition | null> {
  return run.definitionId && may("definitions:read") ? api.definition(run.definitionId, signal) : null;
}

/** A run that has not begun has no checkpoints; and a thread of its own has hardly more than it has supersteps. */
async function loadHistory(run: Run, visits: Visit[], signal: AbortSignal): Promise<Checkpoint[] | null> {
  if (!may("threads:read")) return null;
  if (!visits.length) return [];
  const isAlone = run.threadId === run.id;
  const last = Math.max(...visits.map((visit) => visit.superstep));
  return api.history(run.threadId, isAlone ? Math.min(MOST_CHECKPOINTS, last + 50) : MOST_CHECKPOINTS, signal);
}

/** Load a side, and again every few seconds until its run has ended. */
export function useSide(id: string | null): [Signal<Loaded<Side | null>>, () => void] {
  const last = useRef<Side | null>(null);
  return useLoad<Side | null>(
    async (signal) => {
      if (!id) return null;
      const known = last.current?.id === id ? last.current : null;
      if (known && (!known.run || ENDED.includes(known.run.status))) return known;
      return (last.current = await loadSide(id, signal));
    },
    [id],
    5,
  );
}

/** The checkpoint of a side that the address names, or else the last one of its run. */
export function checkpointAt(side: Side, id: string | null): Checkpoint | null {
  const history = side.history ?? [];
  return history.find((checkpoint) => checkpoint.checkpointId === id) ?? history.find((checkpoint) => checkpoint.metadata.run_id === side.run?.id) ?? history[0] ?? null;
}

/** One side goes on from a checkpoint of the other, after a superstep. */
export interface Forking {
  superstep: number;
  /** True if it is the second that goes on from the first. */
  isSecond: boolean;
}

export function forkBetween(a: Side, b: Side): Forking | null {
  const isSecond = a.run !== null && b.run?.metadata.forkOf === a.run.id;
  const isFirst = b.run !== null && a.run?.metadata.forkOf === b.run.id;
  const visits = (isSecond ? b : a).trail.visits;
  if (!(isSecond || isFirst) || !visits.length) return null;
  return { superstep: Math.min(...visits.map((visit) => visit.superstep)) - 1, isSecond };
}

/** What a side did since the other has gone on from it, or it from the other. */
export function trailAfter({ trail }: Side, fork: Forking | null): Trail {
  return fork ? { ...trail, visits: trail.visits.filter((visit) => visit.superstep > fork.superstep) } : trail;
}
