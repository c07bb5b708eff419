/* The resources of the HTTP API that the page reads, as `/openapi.json` describes them. Fields that a later server adds are
   optional here: the page shows what it gets. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonMap = { [name: string]: Json };
export type RunStatus = "pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled";

export interface RunError {
  message: string;
  code?: string;
  step?: string;
  details?: Json;
  traceback?: string;
}

/** What a run is doing, in a sentence, with what the sentence is made of. */
export interface Activity {
  kind: "queued" | "scheduled" | "working" | "retrying" | "question" | "approval" | "event" | "timer" | "child" | "waiting" | "paused" | "completed" | "failed" | "cancelled";
  text: string;
  step: string | null;
  done: number | null;
  total: number | null;
  attempt: number | null;
  maxAttempts: number | null;
  at: string | null;
  waitId: string | null;
  waitCount: number;
}

export interface Run {
  id: string;
  workspaceId: string;
  definitionId: string | null;
  graph: string;
  threadId: string;
  status: RunStatus;
  currentStepName: string | null;
  activity?: Activity | null;
  workerHost?: string | null;
  input: Json;
  output: Json;
  error: RunError | null;
  totalCostUsd: number;
  tags: string[];
  metadata: JsonMap;
  settings: JsonMap;
  queue: string;
  priority: number;
  losses: number;
  source: string;
  parentId: string | null;
  version: number;
  nextRunAt: string | null;
  deadlineAt: string | null;
  createdAt: string;
  updatedAt: string;
  startedAt: string | null;
  completedAt: string | null;
  failedAt: string | null;
  cancelledAt: string | null;
}

export interface Step {
  id: string;
  workflowRunId: string;
  stepName: string;
  stepType: string;
  status: "pending" | "running" | "waiting" | "completed" | "failed" | "skipped" | "cancelled";
  attempt: number;
  superstep: number;
  position: number;
  output: Json;
  error: RunError | null;
  waitUntil: string | null;
  signalType: string | null;
  startedAt: string | null;
  completedAt: string | null;
}

export interface RunEvent {
  id: string;
  seq: number;
  workflowRunId: string;
  stepRunId: string | null;
  eventType: string;
  payload: JsonMap;
  createdAt: string;
}

export interface LiveEvent {
  workflowRunId: string;
  stepName: string | null;
  eventType: string;
  payload: Json;
}

export interface Wait {
  id: string;
  workflowRunId: string;
  stepRunId: string;
  stepName: string;
  kind: "question" | "timer" | "event";
  signalType: string | null;
  value: Json;
  responseSchema: Json;
  dueAt: string | null;
  createdAt: string;
}

export interface Approval {
  id: string;
  workflowRunId: string;
  stepRunId: string;
  stepName: string;
  contentKey: string | null;
  content: Json;
  prompt: string;
  decision: "approved" | "rejected" | "edited" | "expired" | "cancelled" | null;
  editedContent: Json;
  decidedBy: string | null;
  decidedByKey: string | null;
  decidedAt: string | null;
  expiresAt: string | null;
  createdAt: string;
}

/** An answer to a question that is closed now; approvals are apart. */
export interface PastAnswer {
  id: string;
  cursor: string;
  workflowRunId: string;
  graph: string;
  answer: Json;
  byKey: string | null;
  createdAt: string;
}

export interface ModelCall {
  id: string;
  workflowRunId: string;
  stepRunId: string | null;
  stepName: string | null;
  model: string;
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
  details: JsonMap | null;
  createdAt: string;
}

export interface LogLine {
  at: string;
  level: string | null;
  logger: string | null;
  stream: string;
  message: string;
  node?: string;
  attempt?: number;
}

export interface Log {
  stepRunId: string;
  stepName: string;
  attempt: number;
  number: number;
  lines: LogLine[];
}

export interface CostTotal {
  calls: number;
  costUsd: number;
  inputTokens: number;
  outputTokens: number;
}

export interface Cost {
  total: CostTotal;
  byModel: (CostTotal & { model: string })[];
  calls: ModelCall[];
}

export interface CostSummary {
  start: string | null;
  end: string | null;
  total: CostTotal;
  byModel: (CostTotal & { model: string })[];
}

export interface DailyCost {
  day: string;
  name: string;
  count: number;
  costUsd: number;
  inputTokens: number | null;
  outputTokens: number | null;
}

export interface RunCounts {
  start: string;
  total: number;
  byStatus: Partial<Record<RunStatus, number>>;
}

export interface Graph {
  name: string;
  kind: string;
  description: string;
  version: string;
  definitionId: string | null;
}

/** A version of a graph; those of graphs in Python can be run only while they are served. */
export interface Definition {
  id: string;
  workspaceId: string;
  name: string;
  version: string;
  kind: string;
  createdAt: string;
}

export interface DrawnNode {
  id: string;
  label: string;
  kind: "start" | "end" | "node" | "waiting" | "subgraph" | "unreachable";
}

export interface DrawnEdge {
  source: string;
  target: string;
  kind: "plain" | "conditional" | "declared" | "join";
  label: string;
}

export interface GraphDescription extends Graph {
  nodes: DrawnNode[];
  edges: DrawnEdge[];
  inputSchema: JsonMap | null;
  outputSchema: JsonMap | null;
  stateSchema: JsonMap | null;
}

/** A drawing with the nodes of subgraphs in place of them; their ids begin with the id of their box and a colon. */
export interface Diagram {
  nodes: DrawnNode[];
  edges: DrawnEdge[];
}

export interface Source {
  language: "yaml" | "json" | "python";
  text: string;
  file: string | null;
  lines: Record<string, number>;
}

/** The state before and after the superstep of a step. */
export interface StepStates {
  stepRunId: string;
  superstep: number;
  before: JsonMap | null;
  after: JsonMap | null;
  beforeCheckpointId: string | null;
  afterCheckpointId: string | null;
}

export interface TracedAttempt {
  number: number;
  startedAt: string | null;
  endedAt: string | null;
  error: RunError | null;
  retryAt: string | null;
}

export interface TracedCall {
  kind: "model" | "tool";
  name: string;
  agent: string | null;
  at: string;
  seconds: number | null;
  inputTokens: number | null;
  outputTokens: number | null;
  costUsd: number | null;
  error: string | null;
}

/** A step inside a subgraph. Its path begins with the node of the run's own graph that has called the subgraph. */
export interface InnerStep {
  id: string;
  parentId: string | null;
  path: string[];
  superstep: number;
  status: Step["status"];
  agent: string | null;
  startedAt: string | null;
  endedAt: string | null;
  attempts: TracedAttempt[];
  calls: TracedCall[];
}

/** A wait of a step, open or ended. */
export interface PastWait {
  id: string;
  kind: "question" | "timer" | "event";
  signalType: string | null;
  startedAt: string;
  endedAt: string | null;
  endedBy: "signal" | "timer" | "end" | null;
  byKey: string | null;
  answer: Json;
}

export interface Trace {
  steps: { id: string; stepName: string; waits: PastWait[]; innerSteps: InnerStep[]; innerCount: number }[];
  queued: { startedAt: string; endedAt: string | null }[];
  totalSteps: number;
  lastEvent: number;
  nextCursor: string | null;
}

export interface ThreadInList {
  threadId: string;
  changedAt: string;
  runId: string;
  graph: string;
  status: RunStatus;
  runCount: number;
}

export interface CheckpointTask {
  id: string;
  name: string;
  error: Json;
  result: Json;
  interrupts: Json[];
}

export interface Checkpoint {
  threadId: string;
  checkpointId: string | null;
  parentCheckpointId: string | null;
  branch: string;
  values: JsonMap;
  sizeBytes: number;
  next: string[];
  metadata: JsonMap & { nodes?: string[]; step?: number; run_id?: string; source?: string };
  createdAt: string | null;
  tasks: CheckpointTask[];
}

export interface Schedule {
  id: string;
  name: string;
  graph: string;
  cron: string;
  timezone: string;
  input: Json;
  overlap: string;
  catchUp: string;
  paused: boolean;
  nextAt: string | null;
  lastAt: string | null;
  lastRunId: string | null;
  tags: string[];
  metadata: JsonMap;
}

/** What somebody says of a schedule; the rest of it is the server's. */
export interface ScheduleBody {
  name: string;
  graph: string;
  cron: string;
  timezone: string;
  input: Json;
  overlap: string;
  catchUp: string;
  tags: string[];
}

export interface TriggerBody {
  event: string;
  graph: string;
  match: JsonMap;
}

export interface Trigger {
  id: string;
  event: string;
  graph: string;
  match: JsonMap;
  active: boolean;
  createdAt: string;
}

export interface Webhook {
  id: string;
  url: string;
  events: string[];
  description: string;
  active: boolean;
  failures: number;
  disabledReason: string | null;
  createdAt: string;
}

export interface WebhookBody {
  url: string;
  events: string[];
  description: string;
}

export interface WebhookWithSecret extends Webhook {
  /** Only after it was generated. */
  secret: string | null;
}

export interface Delivery {
  id: string;
  webhookId: string;
  workflowRunId: string | null;
  eventType: string;
  body: Json;
  status: "pending" | "delivered" | "failed";
  attempts: number;
  responseStatus: number | null;
  error: string | null;
  dueAt: string | null;
  createdAt: string;
  deliveredAt: string | null;
}

export interface LoadProblem {
  file: string | null;
  line: number | null;
  column: number | null;
  code: string;
  message: string;
  suggestion: string;
}

/** The files of a development server, and why a newer version of them cannot be loaded. */
export interface Reload {
  watches: boolean;
  loadedAt: string | null;
  failedAt: string | null;
  problems: LoadProblem[];
  texts: Record<string, string>;
}

export interface Worker {
  id: string;
  host: string;
  pid: number;
  status: "live" | "draining" | "lost";
  capacity: number;
  claimed: number;
  queues: string[] | null;
  versions: string[];
  startedAt: string;
  until: string;
}

export interface Queue {
  name: string;
  maxRunning: number | null;
  startsPerMinute: number | null;
  depth: number;
  oldestDueSeconds: number | null;
  claimed: number;
  dead: number;
  workers: number;
}

export interface Session {
  authenticated: boolean;
  keyRequired: boolean;
  scopes: string[];
  workspace: string | null;
  keyName: string | null;
}

export interface Meta {
  page: number;
  pageSize: number;
  total: number;
  totalPages: number;
}

export interface Page<T> {
  items: T[];
  meta: Meta;
}
