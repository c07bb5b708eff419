/* Going on from a checkpoint: a new run, on a thread of its own, so that it can be compared with the run that was there. */

import { api, type StateEdit } from "../../api/client";
import type { Run } from "../../api/types";
import { hrefOf, open } from "../../router";
import { may } from "../../state/session";
import { attempt } from "../../state/toast";
import { texts } from "../../texts";

export const mayGoOn = (): boolean => may("runs:write") && may("threads:write");

/** Start a run that goes on from a checkpoint, and show it. */
export async function goOn(threadId: string, checkpointId: string, runId: string | undefined, edit?: StateEdit): Promise<void> {
  await attempt(async () => {
    const origin = await findOrigin(threadId, runId);
    const isServed = await api.graph(origin.graph).then(
      () => true,
      () => false,
    );
    const target = isServed ? { graph: origin.graph } : { definitionId: origin.definitionId ?? undefined };
    const made = await api.start({ ...target, fork: { threadId, checkpointId, ...(edit ? { edit } : {}) }, metadata: { forkOf: origin.id } });
    open(hrefOf(["runs", made.id]));
  }, texts.threads.wentOn);
}

/** The run that has saved a checkpoint; the newest of the thread for that of an edit, which belongs to none. */
async function findOrigin(threadId: string, runId: string | undefined): Promise<Run> {
  if (runId?.startsWith("run_")) return await api.run(runId);
  const { items } = await api.runs(new URLSearchParams({ threadId, pageSize: "1" }));
  return items[0] as Run;
}
