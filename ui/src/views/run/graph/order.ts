/* The order of a graph: which edges go back (they close loops), and on which side of its rank a node stands. */

export interface Link {
  source: string;
  target: string;
}

/** Return the indexes of the edges that lead back to a node on the path from the start: loops, also those to oneself. */
export function findBackEdges(nodes: string[], edges: Link[]): Set<number> {
  const outgoing = new Map<string, number[]>(nodes.map((id) => [id, []]));
  edges.forEach((edge, index) => outgoing.get(edge.source)?.push(index));
  const back = new Set<number>();
  const state = new Map<string, "open" | "done">();
  const hasIncoming = new Set(edges.map((edge) => edge.target));
  for (const root of [...nodes.filter((id) => !hasIncoming.has(id)), ...nodes]) visit(root);
  return back;

  /** Depth-first without recursion: graphs may be as deep as they are long. */
  function visit(root: string): void {
    if (state.has(root)) return;
    const stack: { id: string; next: number }[] = [{ id: root, next: 0 }];
    state.set(root, "open");
    while (stack.length) {
      const top = stack[stack.length - 1] as { id: string; next: number };
      const index = outgoing.get(top.id)?.[top.next];
      if (index === undefined) {
        state.set(top.id, "done");
        stack.pop();
        continue;
      }
      top.next += 1;
      const target = (edges[index] as Link).target;
      if (state.get(target) === "open") back.add(index);
      else if (!state.has(target) && outgoing.has(target)) {
        state.set(target, "open");
        stack.push({ id: target, next: 0 });
      }
    }
  }
}
