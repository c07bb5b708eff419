/* The list of runs: views, the strip of time, filters, and rows that change where they stand. */

import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { api } from "../../api/client";
import type { Graph } from "../../api/types";
import { useKeys } from "../../keys";
import { Bones, Button, Command, Empty } from "../../parts/controls";
import { Icon } from "../../parts/icons";
import { Problem } from "../../parts/Problem";
import { address, choose, hrefOf, open } from "../../router";
import { now, repeat } from "../../state/clock";
import { hear } from "../../state/feed";
import { may } from "../../state/session";
import { texts } from "../../texts";
import { Bulk } from "./Bulk";
import { hiddenColumns, isCurrent, withColumns } from "./columns";
import { ColumnsMenu } from "./ColumnsMenu";
import { downloadRuns } from "./export";
import { FilterBar } from "./FilterBar";
import { COMMON_VIEWS, filterQuery, hrefOfView, toPeriod } from "./filters";
import { RunList } from "./list";
import { Row } from "./Row";
import { ageOf } from "./sentence";
import { type Bucket, Strip, toBuckets } from "./Strip";
import { removeView, savedViews, saveView } from "./views";
import { type Window, windowAt } from "./windowing";

const words = texts.runs;

export function RunsView() {
  const filter = filterQuery(address.value.query);
  const sort = address.value.query.get("sort") ?? "-createdAt";
  const key = `${filter}|${sort}`;
  const list = useMemo(() => new RunList(filter, sort), [key]);
  useEffect(() => () => list.close(), [list]);
  const shown = useSignal<Window>({ first: 0, end: 30 });
  const chosen = useSignal<Set<string> | "all">(new Set());
  const here = useSignal(-1);
  const isAdding = useSignal(false);
  const graphs = useSignal<Graph[]>([]);
  const buckets = useSignal<Bucket[]>([]);
  const scroller = useRef<HTMLDivElement>(null);
  const table = useRef<HTMLTableElement>(null);

  const loadBuckets = async (): Promise<void> => {
    const query = toPeriod(filter, Date.now());
    buckets.value = toBuckets(await api.histogram(query, list.signal), query.get("to") ?? "");
  };
  useEffect(() => {
    chosen.value = new Set();
    here.value = -1;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const soon = (): void => {
      timer ??= setTimeout(() => {
        timer = undefined;
        void list.refresh(shown.peek()).catch(() => undefined);
        void loadBuckets().catch(() => undefined);
      }, 700);
    };
    hear({ onRuns: (runs) => list.take(runs) && soon(), onReset: soon }, list.signal);
    void repeat(() => Promise.all([list.refresh(shown.peek()), loadBuckets()]), () => 60, list.signal);
  }, [list]);
  useEffect(() => {
    if (may("definitions:read")) void api.graphs().then((found) => (graphs.value = found), () => undefined);
  }, []);

  const total = list.total.value ?? 0;
  const measure = (): void => {
    const box = scroller.current;
    if (!box) return;
    const top = box.scrollTop - topOfRows(box, table.current);
    const next = windowAt(top, box.clientHeight, rowHeight(), list.total.peek() ?? 0);
    const before = shown.peek();
    if (next.first !== before.first || next.end !== before.end) shown.value = next;
    void list.need(next);
  };
  useEffect(measure, [list, total]);
  useEffect(() => {
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, [list]);

  const isIdle = (): boolean => (scroller.current?.scrollTop ?? 0) < 40 && here.peek() < 0 && chosen.peek() !== "all" && (chosen.peek() as Set<string>).size === 0;
  useSignalEffect(() => {
    if (list.fresh.value && isIdle()) void list.showFresh();
  });
  const toggle = useMemo(
    () =>
      (id: string): void => {
        const before = chosen.peek();
        const next = new Set(before === "all" ? [] : before);
        if (!next.delete(id)) next.add(id);
        chosen.value = next;
      },
    [],
  );
  const move = (step: number) => (): void => {
    here.value = Math.min(Math.max(0, here.value + step), total - 1);
    reveal(scroller.current, table.current, here.value);
  };
  const showFresh = (): void => {
    scroller.current?.scrollTo(0, 0);
    void list.showFresh();
  };
  useKeys({
    j: move(1),
    k: move(-1),
    x: () => {
      const run = list.row(here.value);
      if (run) toggle(run.id);
    },
    Enter: () => {
      const run = list.row(here.value);
      if (run) open(hrefOf(["runs", run.id]));
    },
    f: () => (isAdding.value = true),
    ".": showFresh,
    Escape: () => {
      chosen.value = new Set();
      isAdding.value = false;
      here.value = -1;
    },
  });

  const count = useComputed(() => (chosen.value === "all" ? total : chosen.value.size));
  const since = filter.get("since");
  return (
    <div class="scroller" ref={scroller} onScroll={measure}>
      <header class="head">
        <h1>{words.title}</h1>
        <span class="mid" role="status">
          {list.total.value === null ? "" : since && words.since[since] ? words.totalSince(total, words.since[since]) : words.total(total)}
        </span>
        <span class="grow" />
        <Button look="only-wide" onClick={() => void downloadRuns(list.query(), total)} isDisabled={!total}>
          {words.export}
        </Button>
        {may("runs:write") && (
          <a class="btn main" href={hrefOf(["start"])}>
            {words.start} <kbd class="only-wide">N</kbd>
          </a>
        )}
      </header>
      <Views filter={filter} />
      <Strip buckets={buckets.value} />
      <FilterBar query={filter} graphs={graphs.value} known={list.known} isAdding={isAdding.value} onAdd={(is) => (isAdding.value = is)}>
        <ColumnsMenu />
      </FilterBar>
      <section class="sheet" aria-label={words.title}>
        {list.fresh.value > 0 && (
          <button type="button" class="newer" onClick={showFresh}>
            <Icon name="up" />
            {words.fresh(list.fresh.value)} <kbd class="only-wide">.</kbd>
          </button>
        )}
        {list.error.value !== null && list.total.value === null ? (
          <Problem error={list.error.value} onRetry={() => void list.refresh(shown.value)} />
        ) : list.total.value === null ? (
          <Bones rows={14} />
        ) : total === 0 ? (
          <NoRuns isFiltered={filter.size > 0} />
        ) : (
          <table class={`runs${hiddenColumns().map((column) => ` no-${column}`).join("")}`} ref={table} aria-rowcount={total + 1}>
            <Head sort={sort} isAll={count.value > 0 && count.value >= total} isSome={count.value > 0} onAll={() => (chosen.value = count.value ? new Set() : new Set(list.known.map((run) => run.id)))} />
            <Body list={list} shown={shown.value} total={total} chosen={chosen.value} here={here.value} onChoose={toggle} />
          </table>
        )}
      </section>
      {count.value > 0 && may("runs:write") && (
        <Bulk
          chosen={chosen.value}
          known={list.known}
          total={total}
          filter={list.query()}
          onAll={() => (chosen.value = "all")}
          onDone={() => {
            chosen.value = new Set();
            void list.refresh(shown.peek());
          }}
        />
      )}
    </div>
  );
}

const rowHeight = (): number => (matchMedia("(max-width: 719px)").matches ? 80 : 36);

/** Where the first row stands within what is scrolled. */
function topOfRows(box: HTMLElement, table: HTMLTableElement | null): number {
  const rows = table?.tBodies[0];
  return rows ? rows.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop : 0;
}

function reveal(box: HTMLElement | null, table: HTMLTableElement | null, row: number): void {
  if (!box || !table) return;
  const top = topOfRows(box, table) + row * rowHeight();
  if (top < box.scrollTop + 40) box.scrollTop = top - 40;
  else if (top + 2 * rowHeight() > box.scrollTop + box.clientHeight) box.scrollTop = top + 2 * rowHeight() - box.clientHeight;
}

function Head({ sort, isAll, isSome, onAll }: { sort: string; isAll: boolean; isSome: boolean; onAll: () => void }) {
  const columns = words.columns;
  const isNewest = sort === "-createdAt";
  return (
    <thead>
      <tr>
        <th class="c-tick">
          <input type="checkbox" class={`tick${isSome && !isAll ? " some" : ""}`} checked={isAll} aria-label={words.chooseAll} onChange={onAll} />
        </th>
        <th class="c-status">{columns.status}</th>
        <th class="c-graph">{columns.graph}</th>
        <th class="c-why">{columns.why}</th>
        <th class="c-run">{columns.run}</th>
        <th class="c-start" aria-sort={isNewest ? "descending" : "ascending"}>
          <button type="button" class="sorter" onClick={() => choose({ sort: isNewest ? "createdAt" : null })}>
            {columns.started} {isNewest ? "↓" : "↑"}
          </button>
        </th>
        <th class="c-dur">{columns.duration}</th>
        <th class="c-cost num">{columns.cost}</th>
        <th class="c-tags">{columns.tags}</th>
      </tr>
    </thead>
  );
}

interface BodyProps {
  list: RunList;
  shown: Window;
  total: number;
  chosen: Set<string> | "all";
  here: number;
  onChoose: (id: string) => void;
}

/** The rows of the window, each placed by its number: so a row that comes or goes moves no other, and costs no layout. */
function Body({ list, shown, total, chosen, here, onChoose }: BodyProps) {
  void list.changes.value;
  const scales = scalesOf(list);
  const end = Math.min(shown.end, total);
  const height = rowHeight();
  const rows = Array.from({ length: Math.max(0, end - shown.first) }, (_, offset) => shown.first + offset);
  return (
    <tbody style={{ height: `${total * height}px` }}>
      {rows.map((index) => {
        const run = list.row(index);
        if (!run) {
          return (
            <tr key={`bone-${index}`} class="boned" aria-rowindex={index + 2} style={{ top: `${index * height}px` }}>
              <td colSpan={9}>
                <span class="bone w55" />
              </td>
            </tr>
          );
        }
        return <Row key={run.id} run={run} index={index} top={index * height} scale={scales.get(run.graph) ?? 1} isChosen={chosen === "all" || chosen.has(run.id)} isHere={index === here} onChoose={onChoose} />;
      })}
    </tbody>
  );
}

/** For each graph the seconds that fill a bar: what 95 of 100 runs stay under, rounded, so that rows do not change with each run. */
function scalesOf(list: RunList): Map<string, number> {
  const byGraph = new Map<string, number[]>();
  for (const run of list.known) {
    const ages = byGraph.get(run.graph);
    const age = ageOf(run, now.peek()) ?? 0;
    if (ages) ages.push(age);
    else byGraph.set(run.graph, [age]);
  }
  return new Map([...byGraph].map(([graph, ages]) => [graph, scaleOf(ages.sort((a, b) => a - b))]));
}

function scaleOf(ages: number[]): number {
  const high = ages[Math.floor(ages.length * 0.95)] ?? 1;
  return 2 ** (Math.ceil(2 * Math.log2(Math.max(0.1, high))) / 2);
}

function Views({ filter }: { filter: URLSearchParams }) {
  const isNaming = useSignal(false);
  const text = filter.toString();
  const hidden = hiddenColumns();
  const isHere = (query: string): boolean => isCurrent(query, text, hidden);
  const isKnown = savedViews.value.some((view) => isHere(view.query)) || (!hidden.length && COMMON_VIEWS.some((view) => view.query === text));
  const current = (query: string) => (isHere(query) ? { "aria-current": "page" as const } : {});
  return (
    <nav class="views" aria-label={words.views}>
      {COMMON_VIEWS.map(({ name, query }) => (
        <a key={name} href={hrefOfView(query)} {...current(query)}>
          {name}
        </a>
      ))}
      {savedViews.value.map(({ name, query }) => (
        <span key={name} class="row saved">
          <a href={hrefOfView(query)} {...current(query)}>
            {name}
          </a>
          {isHere(query) && <Button look="bare small" icon="close" label={words.removeView} onClick={() => removeView(name)} />}
        </span>
      ))}
      {!isKnown && !isNaming.value && (
        <button type="button" onClick={() => (isNaming.value = true)}>
          <Icon name="plus" /> {words.saveView}
        </button>
      )}
      {isNaming.value && (
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            const name = String(new FormData(event.currentTarget).get("name") ?? "").trim();
            if (name) saveView(name, withColumns(text, hidden));
            isNaming.value = false;
          }}
        >
          <input class="input slim" name="name" placeholder={words.nameView} aria-label={words.nameView} maxLength={40} ref={(input) => input?.focus()} />
        </form>
      )}
    </nav>
  );
}

function NoRuns({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <Empty title={words.noFit}>
        <a class="btn" href={hrefOf(["runs"])}>
          {words.clear}
        </a>
      </Empty>
    );
  }
  return (
    <Empty title={words.empty}>
      <p>{words.emptyHelp}</p>
      <Command text="statewright runs start GRAPH --input '{}'" />
    </Empty>
  );
}

