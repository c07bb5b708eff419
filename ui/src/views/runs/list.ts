/* The runs of the list, in pages as they are needed.

   Runs begin all the time, so the number of a row would change under the reader. The list is therefore anchored: it shows
   what was there when it was opened, by the filter `createdTo`, and counts apart what began since. Pages that are visible
   are read again; pages far away are forgotten, so that 100 000 runs need the memory of a few hundred. */

import { batch, signal } from "@preact/signals";
import { api } from "../../api/client";
import { isAbort } from "../../api/errors";
import type { Run } from "../../api/types";
import { toApiQuery } from "./filters";
import { pagesOf, type Window } from "./windowing";

export const PAGE_SIZE = 100;
const KEPT_PAGES = 8;

export class RunList {
  readonly total = signal<number | null>(null);
  readonly fresh = signal(0);
  readonly error = signal<unknown>(null);
  /** Increases whenever rows have changed. */
  readonly changes = signal(0);
  private readonly pages = new Map<number, Run[]>();
  private readonly loading = new Set<number>();
  private readonly controller = new AbortController();
  private anchor: string | null = null;
  private readonly openedAt = Date.now();

  constructor(
    private readonly filter: URLSearchParams,
    private readonly sort: string,
  ) {}

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  close(): void {
    this.controller.abort();
  }

  row(index: number): Run | undefined {
    return this.pages.get(Math.floor(index / PAGE_SIZE) + 1)?.[index % PAGE_SIZE];
  }

  /** All runs that are at hand. */
  get known(): Run[] {
    return [...this.pages.values()].flat();
  }

  /** The parameters that select the runs of the list. */
  query(): URLSearchParams {
    const query = toApiQuery(this.filter, this.openedAt);
    if (this.anchor && !query.has("createdTo")) query.set("createdTo", this.anchor);
    return query;
  }

  /** Load the pages of a window that are not at hand, and forget those that are far away. */
  async need(window: Window): Promise<void> {
    const pages = pagesOf(window, PAGE_SIZE);
    await Promise.all(pages.filter((page) => !this.pages.has(page) && !this.loading.has(page)).map((page) => this.load(page)));
    if (this.pages.size <= KEPT_PAGES) return;
    const middle = pages[0] ?? 1;
    const far = [...this.pages.keys()].sort((a, b) => Math.abs(b - middle) - Math.abs(a - middle));
    for (const page of far.slice(0, this.pages.size - KEPT_PAGES)) this.pages.delete(page);
  }

  /** Read the visible pages again, and count what is new. */
  async refresh(window: Window): Promise<void> {
    const pages = pagesOf(window, PAGE_SIZE);
    // An empty list has no visible page, but runs may have come to match since: it would stay empty for ever.
    await Promise.all((pages.length ? pages : [1]).map((page) => this.load(page)));
    await this.countFresh();
  }

  /** Take changes of runs that are at hand. Returns true if the list may have other rows now, and has to be read again. */
  take(runs: Run[]): boolean {
    let isOther = false;
    for (const run of runs) {
      const page = [...this.pages.values()].find((rows) => rows.some((row) => row.id === run.id));
      const index = page?.findIndex((row) => row.id === run.id) ?? -1;
      const before = page?.[index];
      if (!page || !before || before.status !== run.status) isOther = true;
      if (!page || !before || before.version > run.version) continue;
      page[index] = run;
      this.changes.value += 1;
    }
    return isOther;
  }

  /** Show what has begun since the list was opened. */
  async showFresh(): Promise<void> {
    this.anchor = null;
    this.fresh.value = 0;
    await this.load(1);
  }

  private async countFresh(): Promise<void> {
    if (!this.anchor) return;
    const query = toApiQuery(this.filter, this.openedAt);
    if (query.has("createdTo")) return;
    query.set("createdFrom", this.anchor);
    query.set("pageSize", "1");
    query.set("brief", "true");
    this.fresh.value = (await api.runs(query, this.signal)).meta.total;
  }

  private async load(number: number): Promise<void> {
    this.loading.add(number);
    const isUnanchored = this.anchor === null;
    const query = this.query();
    query.set("page", String(number));
    query.set("pageSize", String(PAGE_SIZE));
    query.set("brief", "true");
    query.set("sort", this.sort);
    try {
      const page = await api.runs(query, this.signal);
      batch(() => {
        if (isUnanchored) {
          this.pages.clear();
          this.setAnchor(page.items);
        }
        const before = this.pages.get(number);
        if (!before || page.items.length !== before.length || page.items.some((run, index) => isOther(run, before[index]))) {
          this.pages.set(number, page.items);
          this.changes.value += 1;
        }
        this.total.value = page.meta.total;
        this.error.value = null;
      });
    } catch (error) {
      if (!isAbort(error)) this.error.value = error;
    } finally {
      this.loading.delete(number);
    }
  }

  private setAnchor(runs: Run[]): void {
    const newest = runs.reduce((time, run) => Math.max(time, Date.parse(run.createdAt)), 0);
    if (newest) this.anchor = new Date(newest + 1).toISOString(); // times of the API are finer than those of a browser
  }
}

function isOther(run: Run, before: Run | undefined): boolean {
  return run.id !== before?.id || run.version !== before.version || run.updatedAt !== before.updatedAt || run.totalCostUsd !== before.totalCostUsd;
}
