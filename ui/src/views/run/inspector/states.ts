/* What a visit has returned, as far as it is known: what it alone has changed in the state. */

import type { Json, JsonMap, StepStates } from "../../../api/types";
import { isSame } from "../../../diff/sections";
import type { Visit } from "../model";

/** Return the fields that a visit has written; undefined if others have written in the same superstep, or it is not done. */
export function outputOf(states: StepStates | null, visit: Visit, isAlone: boolean): Json | undefined {
  const own = visit.tasks.length === 1 ? visit.tasks[0]?.step.output : null;
  if (own !== null && own !== undefined) return own;
  if (!isAlone || !states?.after) return undefined;
  const before = states.before ?? {};
  const changed = Object.entries(states.after).filter(([name, value]) => !isSame(before[name], value));
  return Object.fromEntries(changed) as JsonMap;
}
