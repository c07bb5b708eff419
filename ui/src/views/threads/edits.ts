/* A change of the state: the fields that somebody has edited, and how each is written. */

import type { Json, JsonMap } from "../../api/types";
import { isSame } from "../../diff/sections";

export interface StateUpdate {
  values: JsonMap;
  /** The fields whose value is replaced. Others are passed to their reducer, as what a node returns is. */
  overwrite?: string[];
  asNode?: string;
  checkpointId?: string;
}

/** Return the fields that differ from the state before. A field cannot be removed. */
export function changedFields(before: JsonMap, after: Json | undefined): JsonMap {
  if (!after || typeof after !== "object" || Array.isArray(after)) return {};
  return Object.fromEntries(Object.entries(after).filter(([name, value]) => !isSame(before[name], value)));
}

export function toUpdate(changed: JsonMap, merged: string[], asNode: string, checkpointId: string | null): StateUpdate {
  const overwrite = Object.keys(changed).filter((name) => !merged.includes(name));
  return { values: changed, ...(overwrite.length ? { overwrite } : {}), ...(asNode ? { asNode } : {}), ...(checkpointId ? { checkpointId } : {}) };
}
