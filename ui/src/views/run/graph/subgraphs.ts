/* Subgraphs that are open in place: their nodes stand in the drawing instead of their box. */

import type { Group } from "./layout";
import type { Diagram, DrawnEdge, DrawnNode, GraphDescription } from "../../../api/types";

export interface OpenDrawing {
  nodes: DrawnNode[];
  edges: DrawnEdge[];
  frames: Group[];
}

export function openInPlace(graph: GraphDescription, diagram: Diagram | null, opened: string[]): OpenDrawing {
  let drawing: OpenDrawing = { nodes: graph.nodes, edges: graph.edges, frames: [] };
  for (const id of opened) {
    const inner = diagram && innerOf(diagram, id);
    const box = drawing.nodes.find((node) => node.id === id);
    if (inner && box) drawing = replace(drawing, box, inner);
  }
  return drawing;
}

/** Return the drawing of one subgraph, with the ids that its nodes have within it; null if there is none. */
export function innerOf(diagram: Diagram, id: string): Diagram | null {
  const prefix = `${id}:`;
  const nodes = diagram.nodes.filter((node) => node.id.startsWith(prefix)).map((node) => ({ ...node, id: node.id.slice(prefix.length) }));
  const edges = diagram.edges
    .filter((edge) => edge.source.startsWith(prefix) && edge.target.startsWith(prefix))
    .map((edge) => ({ ...edge, source: edge.source.slice(prefix.length), target: edge.target.slice(prefix.length) }));
  return nodes.length ? withoutTerminals({ nodes, edges }) : null;
}

/** Leave out where subgraphs within begin and end: edges lead through them. */
function withoutTerminals(drawing: Diagram): Diagram {
  let { edges } = drawing;
  const terminals = drawing.nodes.filter((node) => /:__(start|end)__$/.test(node.id)).map((node) => node.id);
  for (const id of terminals) {
    const [into, out] = [edges.filter((edge) => edge.target === id), edges.filter((edge) => edge.source === id)];
    const through = into.flatMap((one) => out.map((other) => ({ source: one.source, target: other.target, kind: one.kind === "plain" ? other.kind : one.kind, label: one.label || other.label })));
    edges = [...edges.filter((edge) => edge.source !== id && edge.target !== id), ...through];
  }
  return { nodes: drawing.nodes.filter((node) => !terminals.includes(node.id)), edges };
}

function replace(drawing: OpenDrawing, box: DrawnNode, inner: Diagram): OpenDrawing {
  const nameOf = (id: string): string => `${box.id}/${id}`;
  const bodies = inner.nodes.filter((node) => node.id !== "__start__" && node.id !== "__end__");
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
