/* Which columns of the list are shown. The address may say it (`hide=run&hide=tags`, or `hide=none`), as saved views do;
   otherwise it is as it was left last in this browser. */

import { signal } from "@preact/signals";
import { address, choose } from "../../router";

/** The columns that can be hidden. The graph is the link to the run, and stays. */
export const COLUMNS = ["status", "why", "run", "started", "duration", "cost", "tags"] as const;
export type Column = (typeof COLUMNS)[number];

const KEY = "statewright.columns";
const NONE = "none";

const kept = signal<Column[]>(typeof localStorage === "undefined" ? [] : toColumns((localStorage.getItem(KEY) ?? "").split(" ")));

function toColumns(names: string[]): Column[] {
  return COLUMNS.filter((column) => names.includes(column));
}

/** Return the columns that are hidden at an address. */
export function hiddenAt(query: URLSearchParams, otherwise: Column[]): Column[] {
  return query.has("hide") ? toColumns(query.getAll("hide")) : otherwise;
}

export function hiddenColumns(): Column[] {
  return hiddenAt(address.value.query, kept.value);
}

export function toggleColumn(column: Column): void {
  const hidden = hiddenColumns();
  const next = toColumns(hidden.includes(column) ? hidden.filter((each) => each !== column) : [...hidden, column]);
  kept.value = next;
  localStorage.setItem(KEY, next.join(" "));
  if (address.peek().query.has("hide")) choose({ hide: next.length ? next : NONE });
}

/** Return the query of a view with the columns that it hides. */
export function withColumns(filter: string, hidden: Column[]): string {
  const parameters = new URLSearchParams(filter);
  for (const name of hidden.length ? hidden : [NONE]) parameters.append("hide", name);
  return parameters.toString();
}

/** Return whether a view shows these filters and columns. A view that names no columns goes with all. */
export function isCurrent(view: string, filter: string, hidden: Column[]): boolean {
  return view === filter || view === withColumns(filter, hidden);
}
