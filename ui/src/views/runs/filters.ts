/* The filters of the list. The query of the address is the filter; this translates it for the API and for people. */

import { hrefOf } from "../../router";
import { texts } from "../../texts";
import { formatMoment } from "../../format";

/** The names that the address may have, in the order in which they are shown. */
export const FILTERS = ["status", "graph", "since", "from", "to", "tag", "thread", "queue", "metadata", "text"] as const;
export type FilterName = (typeof FILTERS)[number];
export const STATUSES = ["pending", "running", "waiting", "paused", "completed", "failed", "cancelled"] as const;

const HOURS: Record<string, number> = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 };

/** The part of a query that filters, in a fixed order, so that equal filters have equal texts. */
export function filterQuery(query: URLSearchParams): URLSearchParams {
  const found = new URLSearchParams();
  for (const name of FILTERS) for (const value of [...query.getAll(name)].sort()) found.append(name, value);
  return found;
}

/** Return the parameters of `GET /workflow-runs`. */
export function toApiQuery(query: URLSearchParams, now: number): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const [name, value] of query) {
    const pair = toParameter(name as FilterName, value, now);
    if (pair) parameters.append(...pair);
  }
  return parameters;
}

function toParameter(name: FilterName, value: string, now: number): [string, string] | null {
  switch (name) {
    case "since":
      return HOURS[value] ? ["createdFrom", new Date(now - HOURS[value] * 3_600_000).toISOString()] : null;
    case "from":
      return ["createdFrom", value];
    case "to":
      return ["createdTo", value];
    case "thread":
      return ["threadId", value];
    case "metadata": {
      const [key, ...rest] = value.split(":");
      return key ? [`metadata.${key}`, rest.join(":")] : null;
    }
    case "status":
    case "graph":
    case "tag":
    case "queue":
    case "text":
      return [name, value];
    default:
      return null;
  }
}

/** The parameters of the strip of time: what the other filters leave of a period, by default of the last day. */
export function toPeriod(query: URLSearchParams, now: number): URLSearchParams {
  const parameters = toApiQuery(query, now);
  const to = parameters.get("createdTo") ?? new Date(now).toISOString();
  const from = parameters.get("createdFrom") ?? new Date(Date.parse(to) - 24 * 3_600_000).toISOString();
  parameters.delete("createdFrom");
  parameters.delete("createdTo");
  parameters.set("from", from);
  parameters.set("to", to);
  parameters.set("periods", "96");
  return parameters;
}

/** Return the body of a request that cancels or retries all that fit. */
export function toFilterBody(query: URLSearchParams): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  const metadata: Record<string, string> = {};
  for (const [name, value] of query) {
    if (name === "status") body.status = query.getAll("status");
    else if (name === "tag") body.tags = query.getAll("tag");
    else if (name.startsWith("metadata.")) metadata[name.slice(9)] = value;
    else body[name] = value;
  }
  return Object.keys(metadata).length ? { ...body, metadata } : body;
}

export interface FilterChip {
  name: FilterName;
  operator: string;
  value: string;
}

/** Return the filters as people read them. */
export function readChips(query: URLSearchParams): FilterChip[] {
  const words = texts.runs.filters;
  const chips: FilterChip[] = [];
  for (const name of FILTERS) {
    const values = query.getAll(name);
    if (!values.length) continue;
    if (name === "status") chips.push({ name, operator: values.length > 1 ? words.anyOf : words.is, value: values.map(statusWord).join(", ") });
    else if (name === "since") chips.push({ name, operator: "in the", value: texts.runs.since[values[0] ?? ""] ?? values.join() });
    else if (name === "from" || name === "to") chips.push({ name, operator: "", value: formatMoment(values[0] ?? "") });
    else chips.push({ name, operator: name === "tag" || name === "metadata" ? words.has : words.is, value: values.join(", ") });
  }
  return chips;
}

function statusWord(status: string): string {
  return texts.runStatus[status as keyof typeof texts.runStatus] ?? status;
}

/** The views that everybody has. */
export const COMMON_VIEWS = [
  { name: texts.runs.all, query: "" },
  { name: texts.runs.attention, query: "status=failed&status=waiting" },
  { name: texts.runs.running, query: "status=running" },
  { name: texts.runs.failedToday, query: "status=failed&since=24h" },
];

export function hrefOfView(query: string): string {
  return hrefOf(["runs"]) + (query ? `?${query}` : "");
}
