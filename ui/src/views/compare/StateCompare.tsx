/* Any two checkpoints, also of two runs: what differs in their states. */

import type { Checkpoint } from "../../api/types";
import { DiffView } from "../../diff/DiffView";
import { formatMoment, formatTime } from "../../format";
import { Empty } from "../../parts/controls";
import { address, choose } from "../../router";
import { texts } from "../../texts";
import { findParting, nameOf } from "../threads/tree";
import { checkpointAt, type Side } from "./side";

const words = texts.compare;

export function StateCompare({ a, b }: { a: Side; b: Side }) {
  const query = address.value.query;
  if (!a.history || !b.history) return <Empty title={words.mayNot} />;
  const [one, other] = [checkpointAt(a, query.get("ac")), checkpointAt(b, query.get("bc"))];
  if (!one || !other) return <Empty title={words.noCheckpoints} />;
  const isOneThread = a.threadId === b.threadId;
  const parting = isOneThread ? findParting(a.history, one.checkpointId ?? "", other.checkpointId ?? "") : null;
  return (
    <section class="pane scrolls grow" tabIndex={0} aria-label={words.state}>
      <div class="versus">
        <CheckpointChoice letter="a" side={a} chosen={one} />
        <CheckpointChoice letter="b" side={b} chosen={other} />
      </div>
      {isOneThread && (
        <div class="part">
          <span class="grow">{parting ? texts.threads.part(parting.metadata.step ?? 0, nameOf(parting, texts.threads)) : texts.threads.noPart}</span>
        </div>
      )}
      <DiffView key={`${one.checkpointId} ${other.checkpointId}`} before={one.values} after={other.values} order={[]} isSplit arePeers none={texts.threads.same} />
    </section>
  );
}

function CheckpointChoice({ letter, side, chosen }: { letter: "a" | "b"; side: Side; chosen: Checkpoint }) {
  const id = `checkpoint-${letter}`;
  const isOfRun = (checkpoint: Checkpoint): boolean => !side.run || checkpoint.metadata.run_id === side.run.id;
  const oldest = [...(side.history ?? [])].reverse();
  const [own, others] = [oldest.filter(isOfRun), oldest.filter((checkpoint) => !isOfRun(checkpoint))];
  const options = (checkpoints: Checkpoint[]) =>
    checkpoints.map((checkpoint) => (
      <option key={checkpoint.checkpointId} value={checkpoint.checkpointId ?? ""}>
        {[`${checkpoint.metadata.step ?? ""} ${nameOf(checkpoint, texts.threads) || texts.none}`, checkpoint.branch === "main" ? "" : checkpoint.branch, checkpoint.createdAt ? formatTime(checkpoint.createdAt) : ""].filter(Boolean).join(" · ")}
      </option>
    ));
  return (
    <div class="field">
      <label for={id}>
        {words.checkpoint(letter.toUpperCase())}
        <small>{chosen.createdAt ? formatMoment(chosen.createdAt) : ""}</small>
      </label>
      <select class="input" id={id} value={chosen.checkpointId ?? ""} onChange={(event) => choose({ [`${letter}c`]: event.currentTarget.value })}>
        {others.length ? (
          <>
            <optgroup label={words.ofRun}>{options(own)}</optgroup>
            <optgroup label={words.ofThread}>{options(others)}</optgroup>
          </>
        ) : (
          options(own)
        )}
      </select>
    </div>
  );
}
