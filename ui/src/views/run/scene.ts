/* What the panes of a run show in common: the visits by the node that is drawn, their costs, and what was chosen. */

import type { Diagram, DrawnEdge, GraphDescription, InnerStep, ModelCall, Run, RunEvent, Trace, Wait } from "../../api/types";
import { findBackEdges } from "./graph/order";
import { type FoldedDrawing, unfoldEdge } from "./graph/folds";
import { timesTaken } from "./graph/edges";
import { type InnerVisit, readInner } from "./graph/inner";
import { type NodeView, viewChain, viewNode } from "./graph/nodes";
import { innerOf } from "./graph/subgraphs";
import { now } from "../../state/clock";
import { drawnIds, type Pause, type Visit } from "./model";

export class RunScene {
  readonly byNode: Map<string, Visit[]>;
  /** True if the steps inside subgraphs were read. */
  readonly knowsInner: boolean;
  private readonly back: Set<string>;
  private readonly labels: Map<string, string>;
  private readonly costs = new Map<string, number>();

  constructor(
    readonly run: Run,
    readonly graph: GraphDescription | null,
    readonly diagram: Diagram | null,
    readonly visits: Visit[],
    readonly waits: Wait[],
    readonly calls: ModelCall[],
    readonly toolEvents: RunEvent[],
    readonly queued: Trace["queued"],
    readonly pauses: Map<string, Pause[]>,
    /** The agents that steps have called, by the id of the step. */
    private readonly agents: Map<string, string> = new Map(),
    inner: Map<string, InnerStep[]> | null = null,
  ) {
    const nodes = graph?.nodes ?? [];
    const edges = graph?.edges ?? [];
    this.labels = new Map(nodes.map((node) => [node.id, node.label]));
    this.byNode = drawnIds(nodes, visits, (visit) => this.agentOf(visit));
    this.knowsInner = inner !== null;
    if (inner) for (const [id, found] of readInner(visits, inner, (visit) => this.drawnAs(visit))) this.byNode.set(id, found);
    const back = findBackEdges(nodes.map((node) => node.id), edges);
    this.back = new Set(edges.filter((_, index) => back.has(index)).map(keyOf));
    for (const call of calls) {
      const visit = this.visitOfCall(call);
      if (visit) this.costs.set(visit.key, (this.costs.get(visit.key) ?? 0) + call.costUsd);
    }
  }

  get now(): number {
    return now.value;
  }

  get name(): string {
    return this.run.graph;
  }

  get hasBegun(): boolean {
    return this.run.startedAt !== null;
  }

  get hasEnded(): boolean {
    return this.run.status === "completed";
  }

  isBack(edge: DrawnEdge, drawing: FoldedDrawing): boolean {
    const { source, target, ...rest } = unfoldEdge(edge, drawing.chains);
    const outer = (id: string): string => id.split("/")[0] ?? id;
    const isWithin = outer(source) === outer(target) && source !== target;
    return !isWithin && this.back.has(keyOf({ ...rest, source: outer(source), target: outer(target) }));
  }

  /** How often an edge of a drawing was taken. */
  timesTaken(edge: DrawnEdge, drawing: FoldedDrawing): { times: number; isLive: boolean } {
    return timesTaken(unfoldEdge(edge, drawing.chains), this.byNode, this.hasBegun, this.hasEnded);
  }

  joinTaken(target: string): { times: number; isLive: boolean } {
    const visits = this.byNode.get(target) ?? [];
    return { times: visits.length, isLive: visits.some((visit) => visit.status === "running") };
  }

  costOf(visit: Visit): number {
    return this.costs.get(visit.key) ?? 0;
  }

  nodes({ nodes, edges, chains }: FoldedDrawing): NodeView[] {
    return nodes.map((node) => {
      const members = chains.get(node.id);
      if (members) return viewChain(node, members.map((id) => ({ name: this.labels.get(id) ?? id, visits: this.byNode.get(id) ?? [] })));
      return viewNode(node, {
        visits: this.byNode.get(node.id) ?? [],
        waits: this.waits,
        cost: (visit) => this.costOf(visit),
        joins: edges.filter((edge) => edge.kind === "join" && edge.target === node.id).length,
        now: this.now,
        canOpen: Boolean(this.diagram && innerOf(this.diagram, node.id)),
        isInner: node.id.includes("/") && !this.knowsInner,
      });
    });
  }

  /** Return the visit in which a model was called: calls within a subgraph are told by their time. */
  visitOfCall(call: { stepRunId: string | null; createdAt: string }): Visit | undefined {
    if (call.stepRunId) return this.visits.find((visit) => visit.tasks.some((task) => task.step.id === call.stepRunId));
    const at = Date.parse(call.createdAt);
    return this.visits.findLast((visit) => visit.startedAt <= at && (visit.endedAt ?? Infinity) >= at);
  }

  callsOf(visit: Visit): ModelCall[] {
    return this.calls.filter((call) => this.visitOfCall(call) === visit);
  }

  /** The tools that were called in a visit. */
  toolsOf(visit: Visit): RunEvent[] {
    return this.toolEvents.filter((event) => this.visitOfCall(event) === visit);
  }

  /** The id of the node that stands for a visit. */
  private drawnAs(visit: Visit): string {
    const agent = this.agentOf(visit);
    const id = `${visit.name}:${agent}`;
    return agent && this.byNode.has(id) ? id : visit.name;
  }

  /** The id of the node that stands for the visit with a key. */
  boxOf(key: string | null): string | null {
    const visit = this.visits.find((each) => each.key === key);
    return visit ? this.drawnAs(visit) : null;
  }

  /** The visits inside the subgraph that a visit has called, the earliest first. */
  innerOf(visit: Visit): InnerVisit[] {
    const box = this.drawnAs(visit);
    const inner = [...this.byNode].filter(([id]) => id.startsWith(`${box}/`)).flatMap(([, found]) => found as InnerVisit[]);
    return inner.filter((each) => each.parent === visit.key).sort((a, b) => a.startedAt - b.startedAt || a.name.localeCompare(b.name));
  }

  /** Return whether a visit has called a subgraph or an agent. */
  hasInner(visit: Visit): boolean {
    return visit.tasks.some((task) => task.step.stepType === "subgraph") || this.agentOf(visit) !== null;
  }

  /** The agent of a network that worked in a visit: its first event says it, or else its calls. */
  private agentOf(visit: Visit): string | null {
    const [task] = visit.tasks;
    const named = task && this.agents.get(task.step.id);
    if (named) return named;
    const isWithin = (at: string): boolean => Date.parse(at) >= visit.startedAt && Date.parse(at) <= (visit.endedAt ?? Infinity);
    const call = this.calls.find((each) => each.details?.agent && isWithin(each.createdAt));
    const tool = this.toolEvents.find((each) => each.payload.agent && isWithin(each.createdAt));
    const agent = call?.details?.agent ?? tool?.payload.agent;
    return typeof agent === "string" ? agent : null;
  }
}

function keyOf(edge: DrawnEdge): string {
  return `${edge.source}\n${edge.target}\n${edge.kind}`;
}
