/* The states before and after a visit, from the checkpoints of the thread. */

import type { Checkpoint, CheckpointTask, Json, JsonMap } from "../../../api/types";
import type { Visit } from "../model";

export interface States {
  before: Checkpoint | null;
  /** Null while the superstep is not done: its changes are saved together. */
  after: Checkpoint | null;
}

export function statesOf(history: Checkpoint[], runId: string, visit: Visit): States {
  const own = history.filter((checkpoint) => checkpoint.metadata.run_id === runId);
  const after = own.findLast((checkpoint) => checkpoint.metadata.step === visit.superstep && checkpoint.metadata.source !== "input") ?? null;
  const before = after
    ? (history.find((checkpoint) => checkpoint.checkpointId === after.parentCheckpointId) ?? null)
    : (own.find((checkpoint) => checkpoint.metadata.step === visit.superstep - 1) ?? null);
  return { before, after };
}

/** The tasks of a visit, as the checkpoint before it knows them: with results that are saved already. */
export function savedTasks(states: States, visit: Visit): CheckpointTask[] {
  return (states.before?.tasks ?? []).filter((task) => task.name === visit.name);
}

/** What a visit has returned, as far as it is known. */
export function outputOf(states: States, visit: Visit, isAlone: boolean): Json | undefined {
  const saved = savedTasks(states, visit)[0]?.result;
  if (saved !== null && saved !== undefined && visit.tasks.length === 1) return saved;
  if (visit.tasks[0]?.step.output !== null && visit.tasks.length === 1) return visit.tasks[0]?.step.output;
  if (!isAlone || !states.after) return undefined;
  const before = states.before?.values ?? {};
  const changed = Object.entries(states.after.values).filter(([name, value]) => JSON.stringify(before[name]) !== JSON.stringify(value));
  return Object.fromEntries(changed) as JsonMap;
}
