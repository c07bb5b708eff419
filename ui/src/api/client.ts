/* Requests to the HTTP API: the only way in which the page learns or changes anything. The cookie of the session goes along;
   the key itself is never kept by the page. */

import { noteReached, noteUnreachable } from "../state/connection";
import { texts } from "../texts";
import { ApiError, isAbort } from "./errors";
import type * as T from "./types";
import type { Json, JsonMap, Meta, Page } from "./types";

export const ROOT = "/api/v1";
type Query = Record<string, string | number | boolean | string[] | null | undefined>;

/** Called with the status 401: the session has ended, or there is none. */
let onSignedOut = (): void => undefined;
export function whenSignedOut(call: () => void): void {
  onSignedOut = call;
}

export function noteSignedOut(): void {
  onSignedOut();
}

export function toQuery(query: Query | URLSearchParams): string {
  if (query instanceof URLSearchParams) return query.size ? `?${query}` : "";
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && item !== undefined && item !== "") parameters.append(name, String(item));
    }
  }
  return parameters.size ? `?${parameters}` : "";
}

/** Send a request, and return the whole JSON of its response. Raises ApiError. */
async function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<{ data: unknown; meta?: Meta }> {
  let response: Response;
  try {
    response = await fetch(ROOT + path, {
      method,
      credentials: "same-origin",
      headers: { accept: "application/json", ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    noteUnreachable();
    throw new ApiError(0, "UNREACHABLE", texts.errors.unreachable);
  }
  if (response.status < 500) noteReached();
  const requestId = response.headers.get("x-request-id");
  const content: unknown = response.status === 204 ? {} : await response.json().catch(() => null);
  if (response.ok) return (content ?? {}) as { data: unknown; meta?: Meta };
  const error = (content as { error?: { code?: string; message?: string; details?: Json } } | null)?.error ?? {};
  const retryAfter = Number(response.headers.get("retry-after")) || null;
  if (response.status === 401) noteSignedOut();
  if (response.status === 502 || response.status === 503 || response.status === 504) noteUnreachable();
  throw new ApiError(response.status, error.code ?? `HTTP_${response.status}`, error.message ?? texts.errors.unexpected, error.details ?? null, requestId, retryAfter);
}

async function get<R>(path: string, query: Query | URLSearchParams = {}, signal?: AbortSignal): Promise<R> {
  return (await send("GET", path + toQuery(query), undefined, signal)).data as R;
}

async function getPage<R>(path: string, query: Query | URLSearchParams = {}, signal?: AbortSignal): Promise<Page<R>> {
  const { data, meta } = await send("GET", path + toQuery(query), undefined, signal);
  const items = data as R[];
  return { items, meta: meta ?? { page: 1, pageSize: items.length, total: items.length, totalPages: 1 } };
}

async function post<R>(path: string, body: unknown = {}): Promise<R> {
  return (await send("POST", path, body)).data as R;
}

async function patch<R>(path: string, body: unknown): Promise<R> {
  return (await send("PATCH", path, body)).data as R;
}

const remove = (path: string): Promise<unknown> => send("DELETE", path);

const at = (...parts: string[]): string => parts.map((part) => `/${encodeURIComponent(part)}`).join("");

/** A change of the state, as if a node had returned the values. */
export interface StateEdit {
  values: JsonMap;
  /** The fields whose value is replaced. Others are passed to their reducer, as what a node returns is. */
  overwrite?: string[];
  asNode?: string;
}

/** A run to start: of a graph in its newest version, or of the version with an id. */
export interface StartRequest {
  graph?: string | undefined;
  definitionId?: string | undefined;
  input?: Json;
  fork?: { threadId: string; checkpointId: string; edit?: StateEdit } | undefined;
  metadata?: Record<string, Json> | undefined;
  threadId?: string | undefined;
  tags?: string[] | undefined;
  queue?: string | undefined;
}

/** Every request that the page makes. */
export const api = {
  session: (signal?: AbortSignal) => get<T.Session>("/session", {}, signal),
  signIn: (key: string) => post<T.Session>("/session", { key }),
  signOut: () => send("DELETE", "/session"),

  runs: (query: URLSearchParams, signal?: AbortSignal) => getPage<T.Run>("/workflow-runs", query, signal),
  histogram: (query: URLSearchParams, signal?: AbortSignal) => get<T.RunCounts[]>("/workflow-runs/histogram", query, signal),
  run: (id: string, signal?: AbortSignal) => get<T.Run & { stepRuns: T.Step[] }>(at("workflow-runs", id), {}, signal),
  events: (id: string, after: number, pageSize: number, signal?: AbortSignal) =>
    getPage<T.RunEvent>(`${at("workflow-runs", id)}/events`, { after, pageSize }, signal),
  logs: (id: string, step?: string, signal?: AbortSignal) => get<T.Log[]>(`${at("workflow-runs", id)}/logs`, { step }, signal),
  states: (id: string, step: string, signal?: AbortSignal) => get<T.StepStates>(`${at("workflow-runs", id)}/steps${at(step)}/state`, {}, signal),
  trace: (id: string, query: { limit: number; cursor?: string | null }, signal?: AbortSignal) => get<T.Trace>(`${at("workflow-runs", id)}/trace`, query, signal),
  cost: (id: string, signal?: AbortSignal) => get<T.Cost>(`${at("workflow-runs", id)}/cost`, {}, signal),
  start: (request: StartRequest) => post<T.Run>("/workflow-runs?live=true", request),
  changeAll: (verb: "cancel" | "retry", filter: Record<string, unknown>) => post<{ runIds: string[] }>(`/workflow-runs/${verb}`, filter),
  cancel: (id: string) => post<T.Run>(`${at("workflow-runs", id)}/cancel`),
  pause: (id: string) => send("POST", `${at("workflow-runs", id)}/pause`),
  retry: (id: string) => send("POST", `${at("workflow-runs", id)}/retry`),
  resume: (id: string) => send("POST", `${at("workflow-runs", id)}/resume`),
  answer: (id: string, answers: Record<string, Json>) => post<T.Run>(`${at("workflow-runs", id)}/resume`, { answers }),
  signal: (id: string, signalType: string, payload: Json) => post<T.Run>(`${at("workflow-runs", id)}/resume`, { signalType, payload }),

  waits: (query: Query = {}, signal?: AbortSignal) => getPage<T.Wait>("/interrupts", query, signal),
  answers: (limit: number, signal?: AbortSignal) => get<T.PastAnswer[]>("/answers", { limit }, signal),
  approvals: (query: Query = {}, signal?: AbortSignal) => getPage<T.Approval>("/approval-requests", query, signal),
  decide: (id: string, body: { decision: string; editedContent?: Json; decidedBy?: string }) =>
    post<T.Approval>(`${at("approval-requests", id)}/decide`, body),

  graphs: (signal?: AbortSignal) => get<T.Graph[]>("/graphs", {}, signal),
  graph: (name: string, signal?: AbortSignal) => get<T.GraphDescription>(at("graphs", name), {}, signal),
  definition: (id: string, signal?: AbortSignal) => get<T.Definition>(at("workflow-definitions", id), {}, signal),
  versions: (name: string, signal?: AbortSignal) => getPage<T.Definition>("/workflow-definitions", { name, pageSize: 50 }, signal),
  diagram: (id: string, signal?: AbortSignal) => get<T.Diagram>(`${at("workflow-definitions", id)}/diagram`, {}, signal),
  source: (id: string, signal?: AbortSignal) => get<T.Source>(`${at("workflow-definitions", id)}/source`, {}, signal),

  threads: (prefix: string, signal?: AbortSignal) => get<T.ThreadInList[]>("/threads", { prefix }, signal),
  threadState: (id: string, checkpointId?: string, signal?: AbortSignal) =>
    get<T.Checkpoint>(`${at("threads", id)}/state`, { checkpointId }, signal),
  history: (id: string, limit: number, signal?: AbortSignal) => get<T.Checkpoint[]>(`${at("threads", id)}/history`, { limit }, signal),
  fork: (id: string, checkpointId: string, branch?: string) => post<T.Checkpoint>(`${at("threads", id)}/fork`, { checkpointId, branch }),
  updateState: (id: string, body: StateEdit & { checkpointId?: string }) =>
    post<T.Checkpoint>(`${at("threads", id)}/state`, body),

  schedules: (signal?: AbortSignal) => getPage<T.Schedule>("/schedules", { pageSize: 100 }, signal),
  triggers: (signal?: AbortSignal) => getPage<T.Trigger>("/triggers", { pageSize: 100 }, signal),
  webhooks: (signal?: AbortSignal) => getPage<T.Webhook>("/webhooks", { pageSize: 100 }, signal),
  deliveries: (id: string, signal?: AbortSignal) => getPage<T.Delivery>(`${at("webhooks", id)}/deliveries`, { pageSize: 100 }, signal),
  sendAgain: (webhook: string, id: string) => send("POST", `${at("webhooks", webhook)}/deliveries${at(id)}/send-again`),
  testWebhook: (id: string) => post<T.Delivery>(`${at("webhooks", id)}/test`),
  addWebhook: (body: T.WebhookBody) => post<T.WebhookWithSecret>("/webhooks", body),
  changeWebhook: (id: string, changes: Partial<T.WebhookBody> & { active?: boolean; rotateSecret?: boolean }) => patch<T.WebhookWithSecret>(at("webhooks", id), changes),
  removeWebhook: (id: string) => remove(at("webhooks", id)),
  addSchedule: (body: T.ScheduleBody) => post<T.Schedule>("/schedules", body),
  changeSchedule: (id: string, changes: Partial<T.ScheduleBody>) => patch<T.Schedule>(at("schedules", id), changes),
  removeSchedule: (id: string) => remove(at("schedules", id)),
  pauseSchedule: (id: string, paused: boolean) => send("POST", `${at("schedules", id)}/${paused ? "pause" : "resume"}`),
  previewCron: (cron: string, timezone: string, count: number) => post<{ times: string[] }>("/schedules/preview", { cron, timezone, count }),
  addTrigger: (body: T.TriggerBody) => post<T.Trigger>("/triggers", body),
  changeTrigger: (id: string, changes: { match?: JsonMap; active?: boolean }) => patch<T.Trigger>(at("triggers", id), changes),
  removeTrigger: (id: string) => remove(at("triggers", id)),
  reload: (signal?: AbortSignal) => get<T.Reload>("/reload", {}, signal),

  workers: (signal?: AbortSignal) => get<T.Worker[]>("/workers", {}, signal),
  queues: (signal?: AbortSignal) => get<T.Queue[]>("/queues", {}, signal),
  drain: (id: string) => send("POST", `${at("workers", id)}/drain`),
  costsByDay: (query: Query, signal?: AbortSignal) => get<T.DailyCost[]>("/cost/by-day", query, signal),
  costs: (query: Query, signal?: AbortSignal) => get<T.CostSummary>("/cost/summary", query, signal),
};
