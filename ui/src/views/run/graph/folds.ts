/* Chains of a large graph, folded: nodes that stand in a row, each with one way in and one way out, become one node that
   says how many steps it has. What is folded depends on the graph alone, so that nothing moves while a run goes on. */

import type { DrawnEdge } from "../../../api/types";
import { texts } from "../../../texts";
import type { OpenDrawing } from "./subgraphs";

/** The number of nodes above which chains are folded. */
export const MOST_NODES = 60;
/** The length from which a chain is worth folding. */
const LEAST_LENGTH = 3;
/** How the ids of folded chains begin. */
export const CHAIN = "chain:";

/** A drawing with the chains that are folded in it: the nodes of each, in order, by the id of the node that stands for them. */
export interface FoldedDrawing extends OpenDrawing {
  chains: Map<string, string[]>;
}

/** Fold the chains of a drawing with more than `most` nodes, except those whose ids are in `opened`: they get a frame. */
export function foldChains(drawing: OpenDrawing, opened: string[], most = MOST_NODES): FoldedDrawing {
  const chains = new Map<string, string[]>();
  if (drawing.nodes.length <= most) return { ...drawing, chains };
  const frames = [...drawing.frames];
  const standsFor = new Map<string, string>();
  for (const members of findChains(drawing)) {
    const id = `${CHAIN}${members[0]}`;
    if (opened.includes(id)) frames.push({ id, name: texts.run.graph.steps(members.length), members });
    else {
      chains.set(id, members);
      for (const member of members) standsFor.set(member, id);
    }
  }
  const outer = (id: string): string => standsFor.get(id) ?? id;
  const nodes = drawing.nodes.flatMap((node) => {
    const id = outer(node.id);
    const members = chains.get(id);
    if (!members) return [node];
    return members[0] === node.id ? [{ id, label: texts.run.graph.steps(members.length), kind: "node" as const }] : [];
  });
  const isWithin = ({ source, target }: DrawnEdge): boolean => {
    const members = chains.get(outer(source));
    return members !== undefined && outer(source) === outer(target) && source !== members[members.length - 1]; // a loop over the whole chain stays
  };
  const edges = drawing.edges.filter((edge) => !isWithin(edge)).map((edge) => ({ ...edge, source: outer(edge.source), target: outer(edge.target) }));
  return { nodes, edges, frames, chains };
}

/** Return an edge between the nodes that it really joins: out of the last node of a chain, into its first one. */
export function unfoldEdge<E extends DrawnEdge>(edge: E, chains: Map<string, string[]>): E {
  const [from, to] = [chains.get(edge.source), chains.get(edge.target)];
  return from || to ? { ...edge, source: from?.[from.length - 1] ?? edge.source, target: to?.[0] ?? edge.target } : edge;
}

/** Return the chains of a drawing, longest possible, with the nodes of each in order. */
function findChains({ nodes, edges, frames }: OpenDrawing): string[][] {
  const framed = new Set(frames.flatMap((frame) => frame.members));
  const isStep = new Set(nodes.filter((node) => node.kind !== "start" && node.kind !== "end" && !framed.has(node.id)).map((node) => node.id));
  const count = (end: "source" | "target"): Map<string, number> => {
    const counts = new Map<string, number>();
    for (const edge of edges) counts.set(edge[end], (counts.get(edge[end]) ?? 0) + 1);
    return counts;
  };
  const [out, into] = [count("source"), count("target")];
  const next = new Map<string, string>();
  for (const { source, target, kind, label } of edges) {
    const isRow = out.get(source) === 1 && into.get(target) === 1 && kind !== "conditional" && !label && source !== target;
    if (isRow && isStep.has(source) && isStep.has(target)) next.set(source, target);
  }
  const follows = new Set(next.values());
  return [...next.keys()]
    .filter((id) => !follows.has(id)) // a row that closes upon itself has no beginning, and stays as it is
    .map((first) => {
      const members = [first];
      for (let at = next.get(first); at !== undefined; at = next.get(at)) members.push(at);
      return members;
    })
    .filter((members) => members.length >= LEAST_LENGTH);
}
