/* The data of one run: its record, steps and events, kept up to date by its stream.

   All events come from the stream, also the old ones: that is one request, and has no gap between reading and following.
   Events change steps at once; steps that are new, and the run itself, are then read again, at most every second. */

import { batch, computed, type ReadonlySignal, signal } from "@preact/signals";
import { api } from "../../api/client";
import { ApiError, isAbort } from "../../api/errors";
import { followRun } from "../../api/stream";
import type { Diagram, GraphDescription, InnerStep, JsonMap, LiveEvent, Log, ModelCall, Run, RunEvent, Source, Step, StepStates, Trace, Wait } from "../../api/types";
import { now } from "../../state/clock";
import { loadWaits, waits } from "../../state/waits";
import { type LiveMessage, takePiece } from "./live-messages";
import { type Attempt, readAttempts, readVisits, type Visit } from "./model";

/** Pages of the trace that are read for the steps inside subgraphs, of 1 000 steps each. */
const MOST_PAGES = 5;
/** Milliseconds of a frame, and of the longest time for which events are held back. */
const FRAME = 16;
const LONGEST_DELAY = 300;
const ENDED = ["completed", "failed", "cancelled"];

/** The drawings that were read before, so that the next run of a graph is drawn at once. */
const drawings = new Map<string, GraphDescription>();

export class RunStore {
  readonly run = signal<Run | null>(null);
  readonly steps = signal<Step[]>([]);
  readonly events = signal<RunEvent[]>([]);
  readonly graph = signal<GraphDescription | null>(null);
  readonly diagram = signal<Diagram | null>(null);
  readonly queued = signal<Trace["queued"]>([]);
  /** The states around the visits that were looked at, by the key of the visit. */
  readonly states = signal<Record<string, StepStates | "gone">>({});
  /** The steps inside the subgraphs that steps have called, by the id of the step; null until somebody looks. */
  readonly inner = signal<Map<string, InnerStep[]> | null>(null);
  readonly logs = signal<Log[] | null>(null);
  readonly calls = signal<ModelCall[]>([]);
  readonly source = signal<Source | "unknown" | null>(null);
  readonly error = signal<unknown>(null);
  /** Text of messages that models are writing, by the name of the step. */
  readonly live = signal<Record<string, string>>({});
  /** The same messages by their ids, with the calls of tools in them. */
  readonly messages = signal<LiveMessage[]>([]);
  readonly waits: ReadonlySignal<Wait[]>;
  readonly attempts: ReadonlySignal<Map<string, Attempt[]>>;
  readonly visits: ReadonlySignal<Visit[]>;
  readonly hasEnded: ReadonlySignal<boolean>;
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pending: RunEvent[] = [];
  /** When tasks have begun that had to wait for their turn, by the id of their step: steps that are read may be older. */
  private begun = new Map<string, string>();
  private hasBegun = false;
  private frame = 0;
  private isLoadingInner = false;
  private isFollowing = false;
  /** How long it took to apply and show the last events, in milliseconds. */
  private cost = 0;
  private isDrawing = false;

  constructor(readonly id: string) {
    this.waits = computed(() => (waits.value ?? []).filter((wait) => wait.workflowRunId === id));
    this.attempts = computed(() => readAttempts(this.events.value));
    this.hasEnded = computed(() => ENDED.includes(this.run.value?.status ?? ""));
    const passed = computed(() => this.nextAttempts().filter((at) => at <= now.value).length);
    this.visits = computed(() => {
      void passed.value; // a step between two attempts runs again once the time has come
      return readVisits(this.steps.value, this.attempts.value, this.waits.value, now.peek());
    });
  }

  open(): void {
    void this.load();
    this.follow();
  }

  /** Follow the events, after those that were taken before. The stream of a run that has ended is closed, so it is opened
      again when somebody retries the run. */
  private follow(): void {
    if (this.isFollowing) return;
    this.isFollowing = true;
    const after = (this.pending[this.pending.length - 1] ?? this.events.peek()[this.events.peek().length - 1])?.seq ?? 0;
    void followRun(this.id, {
      after,
      onEvents: (events) => this.take(events),
      onLive: (event) => this.takeLive(event),
      hasEnded: () => this.hasEnded.peek() && this.isComplete(),
      onRefused: (status) => {
        if (status === 404) this.error.value = new ApiError(404, "NOT_FOUND", "");
      },
      signal: this.controller.signal,
    }).finally(() => (this.isFollowing = false));
  }

  close(): void {
    this.controller.abort();
    clearTimeout(this.timer);
  }

  private nextAttempts(): number[] {
    if (this.hasEnded.value) return [];
    return [...this.attempts.value.values()].map((attempts) => attempts[attempts.length - 1]?.nextAt ?? 0).filter((at) => at > 0);
  }

  private isComplete(): boolean {
    const last = this.events.peek()[this.events.peek().length - 1]?.eventType ?? "";
    return last.startsWith("WORKFLOW_");
  }

  async load(): Promise<void> {
    try {
      const { stepRuns, ...run } = await api.run(this.id, this.controller.signal);
      const isFirst = this.run.peek() === null;
      const later = this.events.peek().filter((event) => event.createdAt > run.updatedAt);
      batch(() => {
        this.run.value = run;
        this.steps.value = begin(applyEvents(stepRuns, later), this.begun);
        this.error.value = null;
      });
      if (!this.hasEnded.peek()) this.follow();
      if (isFirst && later.length) this.refreshSoon(hasEndedRun(later));
      if (!this.isDrawing) void this.loadGraph(run);
    } catch (error) {
      if (!isAbort(error) && (!(error instanceof ApiError) || !error.isPassing || !this.run.peek())) this.error.value = error;
    }
  }

  /** Read the drawing, once: again only if the server did not answer. */
  private async loadGraph(run: Run): Promise<void> {
    this.isDrawing = true;
    const retry = (error: unknown): void => {
      if (!(error instanceof ApiError) || !error.isPassing) return;
      this.isDrawing = false;
      this.refreshSoon();
    };
    const known = drawings.get(run.graph);
    if (known) this.graph.value = known;
    await Promise.all([
      this.optional(async (abort) => {
        const graph = await api.graph(run.graph, abort);
        drawings.set(run.graph, graph);
        if (graph.version !== known?.version) this.graph.value = graph;
      }, retry),
      this.optional(async (abort) => (this.diagram.value = run.definitionId ? await api.diagram(run.definitionId, abort) : null), retry),
      this.loadTotals(),
    ]);
  }

  private async loadTotals(): Promise<void> {
    await this.optional(async (abort) => (this.calls.value = (await api.cost(this.id, abort)).calls));
    await this.optional(async (abort) => (this.queued.value = (await api.trace(this.id, { limit: 1 }, abort)).queued));
  }

  /** Read the states before and after a visit. Once it has ended they stay as they are. */
  async loadStates(visit: Visit): Promise<void> {
    const known = this.states.peek()[visit.key];
    const [task] = visit.tasks;
    if (!task || (known !== undefined && known !== "gone" && known.after !== null)) return;
    const keep = (states: StepStates | "gone"): void => void (this.states.value = { ...this.states.peek(), [visit.key]: states });
    await this.optional(async (abort) => keep(await api.states(this.id, task.step.id, abort)), (error) => !isAbort(error) && !known && keep("gone"));
  }

  /** Read the steps inside subgraphs: no event tells of them. */
  async loadInner(): Promise<void> {
    if (this.isLoadingInner) return;
    this.isLoadingInner = true;
    await this.optional(async (abort) => {
      const inner = new Map<string, InnerStep[]>();
      let cursor: string | null = null;
      for (let page = 0; page < MOST_PAGES && (page === 0 || cursor); page += 1) {
        const trace: Trace = await api.trace(this.id, { limit: 1000, cursor }, abort);
        for (const step of trace.steps) if (step.innerSteps.length) inner.set(step.id, step.innerSteps);
        cursor = trace.nextCursor;
      }
      this.inner.value = inner;
    });
    this.isLoadingInner = false;
  }

  async loadLogs(): Promise<void> {
    await this.optional(async (abort) => (this.logs.value = await api.logs(this.id, undefined, abort)));
  }

  async loadSource(): Promise<void> {
    const id = this.run.peek()?.definitionId;
    if (!id || this.source.peek()) return;
    await this.optional(async (abort) => (this.source.value = await api.source(id, abort)), () => (this.source.value = "unknown"));
  }

  private async optional(load: (abort: AbortSignal) => Promise<unknown>, fail: (error: unknown) => unknown = () => undefined): Promise<void> {
    await load(this.controller.signal).catch(fail);
  }

  /** Take events of the stream; they are applied once a frame, or less often if that takes longer than a frame. */
  private take(events: RunEvent[]): void {
    this.pending.push(...events);
    this.applySoon();
  }

  private takeBegun({ stepRunId, startedAt }: Begun): void {
    this.begun.set(stepRunId, startedAt);
    this.hasBegun = true;
    this.applySoon();
  }

  private applySoon(): void {
    if (this.frame) return;
    const apply = (): void => {
      if (this.controller.signal.aborted) return;
      this.frame = 0;
      const fresh = this.pending;
      this.pending = [];
      const startedAt = performance.now();
      this.apply(fresh);
      setTimeout(() => (this.cost = performance.now() - startedAt)); // with what is rendered after this
    };
    if (document.hidden) this.frame = setTimeout(apply, 1000) as unknown as number;
    else if (this.cost < FRAME) this.frame = requestAnimationFrame(apply);
    else this.frame = setTimeout(apply, Math.min(3 * this.cost, LONGEST_DELAY)) as unknown as number;
  }

  private apply(fresh: RunEvent[]): void {
    batch(() => {
      if (this.hasBegun) this.steps.value = begin(this.steps.peek(), this.begun);
      this.hasBegun = false;
      if (!fresh.length) return;
      this.events.value = [...this.events.peek(), ...fresh];
      const run = this.run.peek();
      const isNews = run !== null && fresh.some((event) => event.createdAt > run.updatedAt);
      if (!isNews) return; // or the run is not read yet, which will be compared with the events
      this.steps.value = applyEvents(this.steps.peek(), fresh);
      this.refreshSoon(hasEndedRun(fresh));
      if (fresh.some((event) => /WAITING|PAUSED|RESUMED|DECIDED/.test(event.eventType))) void loadWaits(this.controller.signal).catch(() => undefined);
    });
  }

  /** Read again what events do not tell; a large run less often. */
  refreshSoon(isUrgent = false): void {
    if (this.timer && !isUrgent) return;
    clearTimeout(this.timer);
    const milliseconds = isUrgent ? 50 : this.steps.peek().length > 300 ? 2500 : 800;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.load();
      if (this.logs.peek()) void this.loadLogs();
      void this.loadTotals();
    }, milliseconds);
  }

  private takeLive(event: LiveEvent): void {
    if (event.eventType === "begun") return this.takeBegun(event.payload as unknown as Begun);
    const name = event.stepName ?? "";
    const text = pieceOf(event.payload as JsonMap | string | null);
    if (event.eventType === "message") this.messages.value = takePiece(this.messages.peek(), event.payload);
    if (event.eventType === "message" && text) this.live.value = { ...this.live.peek(), [name]: (this.live.peek()[name] ?? "") + text };
  }
}

/** A task of a fan-out has begun, which had to wait for its turn. */
interface Begun {
  stepRunId: string;
  startedAt: string;
}

function hasEndedRun(events: RunEvent[]): boolean {
  return events.some((event) => event.eventType.startsWith("WORKFLOW_"));
}

function pieceOf(payload: JsonMap | string | null): string {
  if (typeof payload === "string") return payload;
  const content = payload?.text ?? payload?.content ?? payload?.delta ?? null;
  return typeof content === "string" ? content : "";
}

const STATUS_AFTER: Record<string, Step["status"]> = {
  STEP_STARTED: "running",
  STEP_COMPLETED: "completed",
  STEP_WAITING: "waiting",
  STEP_SKIPPED: "skipped",
};

/** Return the steps, of which some have begun, with the times at which they did. */
export function begin(steps: Step[], begun: Map<string, string>): Step[] {
  if (!begun.size) return steps;
  return steps.map((step) => {
    const startedAt = step.status === "pending" ? begun.get(step.id) : undefined;
    return startedAt ? { ...step, status: "running", startedAt } : step;
  });
}

/** Return the steps with the changes that events tell of. */
export function applyEvents(steps: Step[], events: RunEvent[]): Step[] {
  const changes = new Map<string, Partial<Step>>();
  for (const event of events) {
    const status = STATUS_AFTER[event.eventType];
    if (!event.stepRunId || !status) continue;
    changes.set(event.stepRunId, { ...changes.get(event.stepRunId), status, ...(status === "completed" ? { completedAt: event.createdAt } : {}) });
  }
  if (!changes.size) return steps;
  return steps.map((step) => (changes.has(step.id) ? { ...step, ...changes.get(step.id) } : step));
}
