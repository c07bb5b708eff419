/* Where two runs part: their steps side by side, and in each row what differs.

   Steps are matched by node and order: the second visit of a node in one run with its second visit in the other. Of the
   matches that would cross, the longest series that does not is kept, and the rest stand for themselves; so what was
   inserted, left out or repeated is seen as that. Steps of the same superstep ran at the same time, and are sorted by name:
   which of them began first says nothing about the way that a run took. */

import type { Checkpoint, Json, JsonMap } from "../../api/types";
import { isSame } from "../../diff/sections";
import type { Visit } from "../run/model";

/** The states around a superstep; null where they are not known. */
export interface States {
  before: JsonMap | null;
  after: JsonMap | null;
}

/** A run as far as it is compared: what its nodes did, and the states around each superstep. */
export interface Trail {
  visits: Visit[];
  states: Map<number, States>;
}

export type Aspect = "route" | "input" | "output" | "result";

export interface Row {
  key: string;
  a: Visit | null;
  b: Visit | null;
  /** What differs, in the order in which people ask. */
  differs: Aspect[];
  /** Only the input differs, because something differed before: nothing new. */
  isCarried: boolean;
  /** False if the states of one side are not known, so that they were not compared. */
  isKnown: boolean;
}

/** Return the states around each superstep of a run: those of the line of checkpoints that leads to its last one. */
export function readStates(runId: string, history: Checkpoint[]): Map<number, States> {
  const byId = new Map(history.map((checkpoint) => [checkpoint.checkpointId, checkpoint]));
  const newest = history.find((checkpoint) => checkpoint.metadata.run_id === runId);
  const states = new Map<number, States>();
  for (let at = newest; at && !states.has(at.metadata.step ?? -1); at = byId.get(at.parentCheckpointId)) {
    if (at.metadata.run_id && at.metadata.run_id !== runId) break; // an earlier run of the thread; edits belong to none
    states.set(at.metadata.step ?? -1, { before: byId.get(at.parentCheckpointId)?.values ?? null, after: at.values });
  }
  const last = newest?.metadata.step;
  if (newest && last !== undefined) states.set(last + 1, { before: newest.values, after: null });
  return states;
}

/** Return the steps of two runs side by side, in order, with what differs in each row. */
export function alignRuns(a: Trail, b: Trail): Row[] {
  const [left, right] = [sortVisits(a.visits), sortVisits(b.visits)];
  const rows: Row[] = [];
  const add = (one: Visit | null, other: Visit | null): void => void rows.push(compareVisits(one, other, a, b));
  let [i, j] = [0, 0];
  for (const [nextI, nextJ] of [...matchVisits(left, right), [left.length, right.length] as const]) {
    const rest = Math.max(nextI - i, nextJ - j);
    for (let row = 0; row < rest; row += 1) add(i + row < nextI ? (left[i + row] ?? null) : null, j + row < nextJ ? (right[j + row] ?? null) : null);
    if (nextI < left.length || nextJ < right.length) add(left[nextI] ?? null, right[nextJ] ?? null);
    [i, j] = [nextI + 1, nextJ + 1];
  }
  const first = rows.find((row) => row.differs.length > 0);
  for (const row of rows) row.isCarried = row !== first && row.differs.length === 1 && row.differs[0] === "input";
  return rows;
}

/** The way of a run: its visits in order, without those of steps that were skipped. */
function sortVisits(visits: Visit[]): Visit[] {
  return visits.filter((visit) => visit.status !== "skipped").sort((one, other) => one.superstep - other.superstep || one.name.localeCompare(other.name));
}

/** Return the indexes of the visits that belong together, in rising order on both sides. */
function matchVisits(left: Visit[], right: Visit[]): [number, number][] {
  const seen = new Map<string, number>();
  const keyOf = (visit: Visit, side: string): string => {
    const count = seen.get(`${side} ${visit.name}`) ?? 0;
    seen.set(`${side} ${visit.name}`, count + 1);
    return `${count} ${visit.name}`;
  };
  const places = new Map(right.map((visit, index) => [keyOf(visit, "b"), index]));
  const pairs = left.flatMap((visit, index) => {
    const place = places.get(keyOf(visit, "a"));
    return place === undefined ? [] : [[index, place] as [number, number]];
  });
  return longestRise(pairs);
}

/** Return the longest series of pairs whose second numbers rise, of those whose first numbers do. */
function longestRise(pairs: [number, number][]): [number, number][] {
  const ends: number[] = []; // for each length, the index of the pair with the lowest end
  const before: (number | undefined)[] = [];
  pairs.forEach(([, place], index) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((pairs[ends[middle] as number] as [number, number])[1] < place) low = middle + 1;
      else high = middle;
    }
    before[index] = low ? ends[low - 1] : undefined;
    ends[low] = index;
  });
  const series: [number, number][] = [];
  for (let at = ends[ends.length - 1]; at !== undefined; at = before[at]) series.push(pairs[at] as [number, number]);
  return series.reverse();
}

function compareVisits(one: Visit | null, other: Visit | null, a: Trail, b: Trail): Row {
  const key = `${one?.key ?? ""}~${other?.key ?? ""}`;
  if (!one || !other || one.name !== other.name) return { key, a: one, b: other, differs: ["route"], isCarried: false, isKnown: true };
  const [x, y] = [a.states.get(one.superstep), b.states.get(other.superstep)];
  const [read, written] = [[x?.before, y?.before], [outputOf(one, x), outputOf(other, y)]];
  const isKnown = Boolean(read[0] && read[1]) && (written[0] !== undefined || one.endedAt === null) && (written[1] !== undefined || other.endedAt === null);
  const differs: Aspect[] = [];
  if (read[0] && read[1] && !isSame(read[0], read[1])) differs.push("input");
  if (written[0] !== undefined && written[1] !== undefined && !isSame(written[0], written[1])) differs.push("output");
  if (one.status !== other.status || one.tasks.length !== other.tasks.length) differs.push("result");
  return { key, a: one, b: other, differs, isCarried: false, isKnown };
}

/** Return what a step has returned, or else what its superstep has changed; undefined if neither is known. */
export function outputOf(visit: Visit, states: States | undefined): Json | undefined {
  const own = visit.tasks.length === 1 ? visit.tasks[0]?.step.output : null;
  if (own !== null && own !== undefined) return own;
  return states?.after ? changesOf(states.before ?? {}, states.after) : undefined;
}

/** Return the fields that a step has changed; of a list that has only grown, what was appended. */
export function changesOf(before: JsonMap, after: JsonMap): JsonMap {
  const changes: JsonMap = {};
  for (const [name, value] of Object.entries(after)) {
    const old = before[name];
    if (isSame(old, value)) continue;
    const isGrown = Array.isArray(old) && Array.isArray(value) && old.length < value.length && old.every((item, index) => isSame(item, value[index]));
    changes[name] = isGrown ? value.slice(old.length) : value;
  }
  return changes;
}

/** Where two runs part: the first row that differs at all, and the first in which they take another way. */
export interface Parting {
  first: Row;
  route: Row | null;
  /** The last node that both have visited before their ways part. */
  after: string | null;
}

export function findParting(rows: Row[]): Parting | null {
  const first = rows.find((row) => row.differs.length > 0);
  if (!first) return null;
  const at = rows.findIndex((row) => row.differs.includes("route"));
  return { first, route: rows[at] ?? null, after: rows.slice(0, Math.max(0, at)).findLast((row) => row.a && row.b)?.a?.name ?? null };
}

/** Return the names of the fields in which two values differ, if both have fields. */
export function fieldsThatDiffer(one: Json | null | undefined, other: Json | null | undefined): string[] {
  const isMap = (value: Json | null | undefined): value is JsonMap => value !== null && typeof value === "object" && !Array.isArray(value);
  if (!isMap(one) || !isMap(other)) return [];
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].filter((name) => !isSame(one[name], other[name]));
}
