/* What can be done to all chosen runs at once. */

import { api } from "../../api/client";
import type { Run } from "../../api/types";
import { Button, SureButton } from "../../parts/controls";
import { hrefOf } from "../../router";
import { attempt } from "../../state/toast";
import { say } from "../../state/toast";
import { texts } from "../../texts";
import { toFilterBody } from "./filters";

interface BulkProps {
  /** The chosen runs, or all that fit the filters. */
  chosen: Set<string> | "all";
  known: Run[];
  total: number;
  filter: URLSearchParams;
  onAll: () => void;
  onDone: () => void;
}

const words = texts.runs.bulk;

export function Bulk({ chosen, known, total, filter, onAll, onDone }: BulkProps) {
  const count = chosen === "all" ? total : chosen.size;
  const runs = chosen === "all" ? [] : known.filter((run) => chosen.has(run.id));
  const canRetry = chosen === "all" || runs.some((run) => run.status === "failed");
  const canCancel = chosen === "all" || runs.some((run) => !["completed", "failed", "cancelled"].includes(run.status));
  const perform = (verb: "cancel" | "retry", done: string): void => {
    void attempt(async () => {
      const changed = chosen === "all" ? await changeAll(verb, filter) : await changeEach(verb, runs);
      say(words.done(done, changed));
      onDone();
    });
  };
  return (
    <div class="bulk" role="toolbar" aria-label={words.chosen(count)}>
      <span>{words.chosen(count)}</span>
      <span class="sep" />
      {canRetry && (
        <Button icon="retry" onClick={() => perform("retry", words.retried)}>
          {words.retry}
        </Button>
      )}
      {canCancel && (
        <SureButton sure={words.sure} onSure={() => perform("cancel", words.cancelled)}>
          {words.cancel}
        </SureButton>
      )}
      {chosen !== "all" && chosen.size === 2 && (
        <a class="btn" href={hrefOf(["runs", "compare"], pairOf(known, [...chosen]))}>
          {texts.compare.two}
        </a>
      )}
      {chosen !== "all" && total > chosen.size && (
        <Button look="bare more" onClick={onAll}>
          {words.all(total)}
        </Button>
      )}
      <Button look="bare" icon="close" label={words.clear} onClick={onDone} />
    </div>
  );
}

/** The older of two runs is A. */
function pairOf(known: Run[], ids: string[]): Record<string, string> {
  const begunAt = (id: string): string => known.find((run) => run.id === id)?.createdAt ?? "";
  const [a = "", b = ""] = ids.sort((one, other) => begunAt(one).localeCompare(begunAt(other)));
  return { a, b };
}

async function changeAll(verb: "cancel" | "retry", filter: URLSearchParams): Promise<number> {
  return (await api.changeAll(verb, toFilterBody(filter))).runIds.length;
}

/** Change the runs one after another: what cannot be changed is left out, and the rest is still done. */
async function changeEach(verb: "cancel" | "retry", runs: Run[]): Promise<number> {
  const fitting = runs.filter((run) => (verb === "retry") === (run.status === "failed"));
  let changed = 0;
  let problem: unknown = null;
  for (const run of fitting) {
    try {
      await (verb === "cancel" ? api.cancel(run.id) : api.retry(run.id));
      changed += 1;
    } catch (error) {
      problem = error;
    }
  }
  if (!changed && problem) throw problem;
  return changed;
}
