/* The history of a thread as a tree: a lane for each branch, a row for each checkpoint, oldest first within a branch. */

import type { Checkpoint } from "../../api/types";
import { isSame } from "../../diff/sections";

export interface Node {
  checkpoint: Checkpoint;
  id: string;
  lane: number;
  row: number;
  /** The parent, if it stands in another branch. */
  forkedFrom: string | null;
  counts: { add: number; mod: number; del: number };
}

export interface Branch {
  name: string;
  lane: number;
  row: number;
  runId: string | null;
  startedAt: string | null;
}

export interface Tree {
  nodes: Node[];
  branches: Branch[];
  rows: number;
}

export function toTree(history: Checkpoint[]): Tree {
  const byId = new Map(history.map((checkpoint) => [checkpoint.checkpointId, checkpoint]));
  const oldest = [...history].sort((a, b) => (a.createdAt ?? "").localeCompare(b.createdAt ?? "") || (a.checkpointId ?? "").localeCompare(b.checkpointId ?? ""));
  const groups = new Map<string, Checkpoint[]>();
  for (const checkpoint of oldest) groups.set(checkpoint.branch, [...(groups.get(checkpoint.branch) ?? []), checkpoint]);
  const tree: Tree = { nodes: [], branches: [], rows: 0 };
  for (const [name, checkpoints] of groups) {
    const lane = tree.branches.length;
    const [first] = checkpoints;
    tree.branches.push({ name, lane, row: tree.rows, runId: first?.metadata.run_id ?? null, startedAt: first?.createdAt ?? null });
    tree.rows += 1;
    for (const checkpoint of checkpoints) {
      const parent = byId.get(checkpoint.parentCheckpointId);
      tree.nodes.push({
        checkpoint,
        id: checkpoint.checkpointId ?? "",
        lane,
        row: tree.rows,
        forkedFrom: parent && parent.branch !== name ? parent.checkpointId : null,
        counts: countChanges(parent?.values ?? {}, checkpoint.values),
      });
      tree.rows += 1;
    }
  }
  return tree;
}

function countChanges(before: Checkpoint["values"], after: Checkpoint["values"]): Node["counts"] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return {
    add: names.filter((name) => !(name in before)).length,
    del: names.filter((name) => !(name in after)).length,
    mod: names.filter((name) => name in before && name in after && !isSame(before[name], after[name])).length,
  };
}

/** Return the last checkpoint that two have in common: where they part. Null if they have none. */
export function findParting(history: Checkpoint[], a: string, b: string): Checkpoint | null {
  const byId = new Map(history.map((checkpoint) => [checkpoint.checkpointId, checkpoint]));
  const line = (id: string): Checkpoint[] => {
    const found: Checkpoint[] = [];
    for (let at = byId.get(id); at && !found.includes(at); at = byId.get(at.parentCheckpointId)) found.push(at);
    return found;
  };
  const others = new Set(line(b));
  return line(a).find((checkpoint) => others.has(checkpoint)) ?? null;
}

/** What a checkpoint is: the nodes that have worked, the input, or an edit. */
export function nameOf(checkpoint: Checkpoint, words: { input: string; edited: string }): string {
  if (checkpoint.metadata.source === "input") return words.input;
  const nodes = new Map<string, number>();
  for (const node of checkpoint.metadata.nodes ?? []) nodes.set(node, (nodes.get(node) ?? 0) + 1);
  const names = [...nodes].map(([name, count]) => (count > 1 ? `${name} ×${count}` : name)).join(", ");
  return checkpoint.metadata.source === "update" ? `${words.edited}${names ? `, ${names}` : ""}` : names;
}
