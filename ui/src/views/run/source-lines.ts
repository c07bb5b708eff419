/* The line of a definition that belongs to what is chosen in its drawing. */

import type { Source } from "../../api/types";

/** Return the line of the first of the nodes that the source knows; a node of a subgraph is known by its own name. */
export function lineOf(source: Source, nodes: (string | null)[]): number | null {
  for (const node of nodes) {
    const line = node === null ? undefined : (source.lines[node] ?? source.lines[node.replace(/^.*:/, "")] ?? source.lines[node.replace(/\.\d+$/, "")]);
    if (line) return line;
  }
  return null;
}
