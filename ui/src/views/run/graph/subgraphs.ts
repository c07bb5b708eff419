/* Subgraphs that are open in place: their nodes stand in the drawing instead of their box. */

import type { DrawnEdge, DrawnNode, GraphDescription } from "../../../api/types";

export interface OpenDrawing {
  nodes: DrawnNode[];
  edges: DrawnEdge[];
  frames: { id: string; name: string; members: string[] }[];
}

export function openInPlace(graph: GraphDescription, opened: string[]): OpenDrawing {
  let drawing: OpenDrawing = { nodes: graph.nodes, edges: graph.edges, frames: [] };
  for (const id of opened) {
    const inner = graph.subgraphs?.[id];
    const box = drawing.nodes.find((node) => node.id === id);
    if (inner && box) drawing = replace(drawing, box, inner);
  }
  return drawing;
}

function replace(drawing: OpenDrawing, box: DrawnNode, inner: { nodes: DrawnNode[]; edges: DrawnEdge[] }): OpenDrawing {
  const nameOf = (id: string): string => `${box.id}/${id}`;
  const bodies = inner.nodes.filter((node) => node.kind !== "start" && node.kind !== "end");
  const isBody = new Set(bodies.map((node) => node.id));
  const first = inner.edges.filter((edge) => !isBody.has(edge.source) && isBody.has(edge.target)).map((edge) => nameOf(edge.target));
  const last = inner.edges.filter((edge) => isBody.has(edge.source) && !isBody.has(edge.target)).map((edge) => nameOf(edge.source));
  const around = drawing.edges.flatMap((edge) => {
    const sources = edge.source === box.id ? last : [edge.source];
    const targets = edge.target === box.id ? first : [edge.target];
    return sources.flatMap((source) => targets.map((target) => ({ ...edge, source, target })));
  });
  const within = inner.edges.filter((edge) => isBody.has(edge.source) && isBody.has(edge.target)).map((edge) => ({ ...edge, source: nameOf(edge.source), target: nameOf(edge.target) }));
  const members = bodies.map((node) => nameOf(node.id));
  return {
    nodes: drawing.nodes.flatMap((node) => (node.id === box.id ? bodies.map((body) => ({ ...body, id: nameOf(body.id) })) : [node])),
    edges: [...around, ...within],
    frames: [...drawing.frames, { id: box.id, name: box.label, members }],
  };
}
