/* A change of the state: the fields that somebody has edited, and how each is written. */

import type { StateEdit } from "../../api/client";
import type { Json, JsonMap } from "../../api/types";
import { isSame } from "../../diff/sections";

/** Return the fields that differ from the state before. A field cannot be removed. */
export function changedFields(before: JsonMap, after: Json | undefined): JsonMap {
  if (!after || typeof after !== "object" || Array.isArray(after)) return {};
  return Object.fromEntries(Object.entries(after).filter(([name, value]) => !isSame(before[name], value)));
}

export function toEdit(changed: JsonMap, merged: string[], asNode: string): StateEdit {
  const overwrite = Object.keys(changed).filter((name) => !merged.includes(name));
  return { values: changed, ...(overwrite.length ? { overwrite } : {}), ...(asNode ? { asNode } : {}) };
}
