/* The history of a thread: a tree of checkpoints to step through, two of which can be compared; fork and edit. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { api } from "../../api/client";
import type { Checkpoint, Json } from "../../api/types";
import { DiffView } from "../../diff/DiffView";
import { JsonEditor } from "../../form/JsonEditor";
import { formatBytes, formatMoment, formatTime, shortId } from "../../format";
import { useKeys } from "../../keys";
import { Bones, Button, Segments, SureButton } from "../../parts/controls";
import { useLoad } from "../../parts/load";
import { Problem } from "../../parts/Problem";
import { address, choose, hrefOf } from "../../router";
import { may } from "../../state/session";
import { attempt } from "../../state/toast";
import { texts } from "../../texts";
import { ValueView } from "../run/inspector/ValueView";
import { changedFields, toEdit } from "./edits";
import { goOn, mayGoOn } from "./go-on";
import { findParting, nameOf, type Node, toTree, type Tree } from "./tree";

const words = texts.threads;
const ROW = 36;
const LANES = [20, 40, 60, 72];

export function HistoryView({ id }: { id: string }) {
  const [history, again] = useLoad((signal) => api.history(id, 1000, signal), [id], 10);
  const isEditing = useSignal(false);
  const data = history.value.data;
  const tree = useMemo(() => (data ? toTree(data) : null), [data?.length, data?.[0]?.checkpointId]);
  const query = address.value.query;
  const [a, b] = [query.get("a"), query.get("b")];
  const nodes = tree?.nodes ?? [];
  const nodeAt = (id: string | null): Node | undefined => nodes.find((node) => node.id === id);
  const here = nodeAt(query.get("at")) ?? nodeAt(data?.[0]?.checkpointId ?? null) ?? nodes[nodes.length - 1];
  /** Keys may come faster than this is rendered, so they ask the address. */
  const current = (): Node | undefined => nodeAt(address.peek().query.get("at")) ?? here;
  const move = (by: number) => (): void => {
    const next = nodes[Math.min(nodes.length - 1, Math.max(0, nodes.indexOf(current() as Node) + by))];
    if (next) choose({ at: next.id });
  };
  const switchLane = (by: number) => (): void => {
    const next = nodes.find((node) => node.lane === (current()?.lane ?? 0) + by);
    if (next) choose({ at: next.id });
  };
  const pin = (letter: "a" | "b") => (): void => {
    const node = current();
    if (node) choose({ [letter]: address.peek().query.get(letter) === node.id ? null : node.id });
  };
  const mayWrite = may("threads:write");
  const fork = (): void => {
    if (!here || !mayWrite) return;
    const branch = `fork-${here.checkpoint.metadata.step ?? 0}-${Date.now() % 10_000}`;
    void attempt(async () => {
      const made = await api.fork(id, here.id, branch);
      again();
      if (made.checkpointId) choose({ at: made.checkpointId });
    }, words.forked(branch));
  };
  useKeys({
    j: move(1),
    k: move(-1),
    h: switchLane(-1),
    l: switchLane(1),
    a: pin("a"),
    b: pin("b"),
    f: fork,
    e: () => mayWrite && (isEditing.value = true),
    Escape: () => (isEditing.value ? (isEditing.value = false) : choose({ a: null, b: null })),
  });
  if (history.value.error !== null && !data) return <Problem error={history.value.error} onRetry={again} />;
  if (!data || !tree || !here) return <Bones />;
  const find = (checkpointId: string | null): Checkpoint | undefined => data.find((checkpoint) => checkpoint.checkpointId === checkpointId);
  const [first, second] = [find(a), find(b)];
  return (
    <div class="threadpage">
      <header class="runhead">
        <nav class="crumbs" aria-label={texts.run.where}>
          <a href={hrefOf(["threads"])}>{texts.nav.threads}</a>/<span class="mono cut">{id}</span>
        </nav>
        <div class="title">
          <h1 class="cut">{id}</h1>
          <span class="mid">{`${words.branches(tree.branches.length)}, ${words.checkpoints(nodes.length)}`}</span>
          <span class="grow" />
          <span class="row acts">
            {mayWrite && <Button onClick={() => (isEditing.value = !isEditing.value)} keys="E">{words.edit}</Button>}
            {mayWrite && <Button onClick={fork} keys="F">{words.fork}</Button>}
            {mayGoOn() && here.checkpoint.next.length > 0 && (
              <SureButton title={words.goOnHelp} sure={words.goOnSure} onSure={() => void goOn(id, here.id, here.checkpoint.metadata.run_id)}>
                {words.goOn}
              </SureButton>
            )}
            <a class="btn" href={compareHref(id, here.checkpoint)}>{texts.compare.withOther}</a>
            <a class="btn" href={hrefOf(["runs"], { thread: id })}>
              {words.runs}
            </a>
          </span>
        </div>
      </header>
      <div class="work timeview threadview">
        <aside class="scrolls">
          <TreeView tree={tree} here={here} a={a} b={b} />
          <p class="block quiet only-wide">{words.pinHint}</p>
        </aside>
        <section class="pane scrolls">
          {isEditing.value ? (
            <Editor id={id} checkpoint={here.checkpoint} onDone={(made) => {
              isEditing.value = false;
              again();
              if (made) choose({ at: made });
            }} />
          ) : first && second ? (
            <Compare history={data} first={first} second={second} />
          ) : (
            <StateAt history={data} checkpoint={here.checkpoint} />
          )}
        </section>
      </div>
    </div>
  );
}

/** Where a checkpoint is compared with those of other runs: that of an edit belongs to no run, but to its thread. */
function compareHref(threadId: string, checkpoint: Checkpoint): string {
  const run = checkpoint.metadata.run_id;
  return hrefOf(["runs", "compare"], { a: run?.startsWith("run_") ? run : `thread:${threadId}`, view: "state", ac: checkpoint.checkpointId });
}

function TreeView({ tree, here, a, b }: { tree: Tree; here: Node; a: string | null; b: string | null }) {
  const x = (lane: number): number => LANES[Math.min(lane, LANES.length - 1)] ?? 72;
  const y = (row: number): number => row * ROW + ROW / 2;
  const byId = new Map(tree.nodes.map((node) => [node.id, node]));
  return (
    <div class="tree" role="tree" aria-label={words.history}>
      <svg width="88" height={tree.rows * ROW} aria-hidden>
        {tree.branches.map((branch) => {
          const own = tree.nodes.filter((node) => node.lane === branch.lane);
          const [top, bottom] = [own[0], own[own.length - 1]];
          const parent = top?.forkedFrom ? byId.get(top.forkedFrom) : undefined;
          const tone = branch.lane ? "rail r2" : "rail";
          return (
            top &&
            bottom && (
              <g key={branch.lane}>
                {parent && <path class={tone} d={`M${x(parent.lane)} ${y(parent.row)}h6q${x(branch.lane) - x(parent.lane) - 6} 0 ${x(branch.lane) - x(parent.lane) - 6} 14V${y(top.row)}`} />}
                <path class={bottom.checkpoint.next.length ? `${tone} open` : tone} d={`M${x(branch.lane)} ${y(top.row)}V${y(bottom.row)}`} />
              </g>
            )
          );
        })}
        {tree.nodes.map((node) => {
          const isPinned = node.id === a || node.id === b || node === here;
          return <circle key={node.id} class={`dot${node.lane ? " r2" : ""}${isPinned ? " full" : ""}`} cx={x(node.lane)} cy={y(node.row)} r={isPinned ? 5 : 4} />;
        })}
      </svg>
      {tree.branches.flatMap((branch) => [
        <div class="cp branch" key={`branch ${branch.name}`}>
          <span />
          <span class="wide row">
            <b class="graph">{branch.name}</b>
            <span class="quiet cut">{branch.runId?.startsWith("run_") ? shortId(branch.runId) : ""}</span>
          </span>
        </div>,
        ...tree.nodes.filter((node) => node.lane === branch.lane).map((node) => <Row key={node.id} node={node} isHere={node === here} a={a} b={b} />),
      ])}
    </div>
  );
}

function Row({ node, isHere, a, b }: { node: Node; isHere: boolean; a: string | null; b: string | null }) {
  const { checkpoint, counts } = node;
  const letter = node.id === a ? "A" : node.id === b ? "B" : "";
  const name = nameOf(checkpoint, words);
  return (
    <button type="button" role="treeitem" class={`cp${letter ? ` ${letter.toLowerCase()}` : ""}${isHere ? " here" : ""}`} aria-selected={isHere} onClick={() => choose({ at: node.id })}>
      <span />
      <span class="n">{checkpoint.metadata.step ?? ""}</span>
      <span class="cut" title={name}>
        {name || texts.none}
      </span>
      <span class="deltas">
        {counts.add > 0 && <span class="p">+{counts.add}</span>}
        {counts.mod > 0 && <span class="c">~{counts.mod}</span>}
        {counts.del > 0 && <span class="m">−{counts.del}</span>}
      </span>
      <span class="size" title={words.size}>
        {formatBytes(checkpoint.sizeBytes)}
      </span>
      <span class="at">{checkpoint.createdAt ? formatTime(checkpoint.createdAt) : ""}</span>
      {letter ? <span class="pin">{letter}</span> : <span />}
    </button>
  );
}

function StateAt({ history, checkpoint }: { history: Checkpoint[]; checkpoint: Checkpoint }) {
  const parent = history.find((each) => each.checkpointId === checkpoint.parentCheckpointId);
  return (
    <>
      <header class="block row">
        <h2 class="grow">{words.stateAt(checkpoint.metadata.step ?? 0)}</h2>
        {checkpoint.metadata.run_id?.startsWith("run_") && (
          <a class="mono" href={hrefOf(["runs", checkpoint.metadata.run_id])}>
            {shortId(checkpoint.metadata.run_id)}
          </a>
        )}
        <span class="quiet nowrap" title={words.size}>
          {formatBytes(checkpoint.sizeBytes)}
        </span>
        {checkpoint.next.length > 0 && <span class="quiet cut">{`${words.due}: ${[...new Set(checkpoint.next)].join(", ")}`}</span>}
      </header>
      {parent ? <DiffView key={checkpoint.checkpointId} before={parent.values} after={checkpoint.values} order={[]} isSplit none={texts.run.inspector.noDiff} /> : <ValueView title="" value={checkpoint.values} none={texts.none} />}
    </>
  );
}

function Compare({ history, first, second }: { history: Checkpoint[]; first: Checkpoint; second: Checkpoint }) {
  const parting = findParting(history, first.checkpointId ?? "", second.checkpointId ?? "");
  return (
    <>
      <div class="versus">
        {[first, second].map((checkpoint, index) => (
          <div key={index}>
            <p class="row">
              <span class="pin">{index ? "B" : "A"}</span>
              <b class="cut grow">{nameOf(checkpoint, words)}</b>
            </p>
            <p class="quiet">{`${checkpoint.branch} · ${texts.run.inspector.superstep(checkpoint.metadata.step ?? 0)} · ${checkpoint.createdAt ? formatMoment(checkpoint.createdAt) : ""}`}</p>
          </div>
        ))}
      </div>
      <div class="part">
        <span class="grow">{parting ? words.part(parting.metadata.step ?? 0, nameOf(parting, words)) : words.noPart}</span>
      </div>
      <DiffView key={`${first.checkpointId} ${second.checkpointId}`} before={first.values} after={second.values} order={[]} isSplit arePeers none={words.same} />
    </>
  );
}

/** Edit the state at a checkpoint. A field that was changed gets the new value, or is passed to its reducer. */
function Editor({ id, checkpoint, onDone }: { id: string; checkpoint: Checkpoint; onDone: (checkpointId: string | null) => void }) {
  const value = useSignal<Json | undefined>(checkpoint.values);
  const problem = useSignal<string | null>(null);
  const merged = useSignal<string[]>([]);
  const ran = checkpoint.metadata.nodes?.find((node) => !node.startsWith("__")) ?? "";
  const asNode = useSignal(ran);
  const changed = changedFields(checkpoint.values, value.value);
  const names = Object.keys(changed);
  const save = (): void => {
    if (problem.value !== null || !names.length) return;
    void attempt(async () => {
      const at = checkpoint.checkpointId ? { checkpointId: checkpoint.checkpointId } : {};
      const made = await api.updateState(id, { ...toEdit(changed, merged.value, asNode.value), ...at });
      onDone(made.checkpointId);
    }, words.saved);
  };
  useKeys({ "Ctrl+Enter": save });
  return (
    <>
      <div class="block form">
        <div class="field">
          <label for="state">{words.stateAt(checkpoint.metadata.step ?? 0)}</label>
          <JsonEditor
            id="state"
            value={value.value}
            rows={16}
            onChange={(next, wrong) => {
              problem.value = wrong;
              if (!wrong) value.value = next;
            }}
          />
        </div>
        {names.length > 0 && (
          <div class="field" role="group" aria-labelledby="changed-fields">
            <span class="label" id="changed-fields">
              {words.changedFields}
            </span>
            {names.map((name) => (
              <div class="row changed-field" key={name}>
                <code class="cut grow">{name}</code>
                <Segments
                  label={words.howWritten(name)}
                  chosen={merged.value.includes(name) ? "merge" : "overwrite"}
                  onChoose={(how) => (merged.value = [...merged.value.filter((each) => each !== name), ...(how === "merge" ? [name] : [])])}
                  choices={[
                    { key: "overwrite", label: words.overwrite },
                    { key: "merge", label: words.merge },
                  ]}
                />
              </div>
            ))}
            <span class="help">{words.editHelp}</span>
          </div>
        )}
        <div class="field half">
          <label for="as-node">{words.asNode}</label>
          <input class="input" id="as-node" value={asNode.value} onInput={(event) => (asNode.value = event.currentTarget.value)} />
        </div>
      </div>
      <footer class="foot">
        <span class="grow quiet cut">{names.join(", ")}</span>
        <Button onClick={() => onDone(null)}>{texts.close}</Button>
        {mayGoOn() && (
          <Button
            label={words.goOnHelp}
            onClick={() => void goOn(id, checkpoint.checkpointId ?? "", checkpoint.metadata.run_id, toEdit(changed, merged.value, asNode.value === ran ? "" : asNode.value))}
            isDisabled={problem.value !== null || !names.length}
          >
            {words.goOnEdited}
          </Button>
        )}
        <Button look="main" keys="Ctrl Enter" onClick={save} isDisabled={problem.value !== null || !names.length}>
          {words.save}
        </Button>
      </footer>
    </>
  );
}
