/* Go to a run, a graph or a page by typing. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api } from "../api/client";
import type { Graph, Run } from "../api/types";
import { formatAgo, shortId } from "../format";
import { Glyph } from "../parts/glyphs";
import { Icon } from "../parts/icons";
import { hrefOf, open } from "../router";
import { now } from "../state/clock";
import { texts } from "../texts";
import { glyphOf } from "../views/runs/sentence";

interface Hit {
  href: string;
  label: string;
  note: string;
  run?: Run;
}

const PAGES = ["runs", "inbox", "start", "threads", "schedules", "workers", "costs"] as const;

export function Find({ onClose }: { onClose: () => void }) {
  const text = useSignal("");
  const at = useSignal(0);
  const runs = useSignal<Run[]>([]);
  const graphs = useSignal<Graph[]>([]);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    input.current?.focus();
    void api.runs(new URLSearchParams({ pageSize: "100" })).then((page) => (runs.value = page.items));
    void api.graphs().then((found) => (graphs.value = found));
  }, []);
  const hits = findHits(text.value.trim().toLowerCase(), runs.value, graphs.value);
  const chosen = Math.min(at.value, hits.length - 1);
  useEffect(() => {
    document.getElementById(`found-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const go = (hit: Hit | undefined): void => {
    if (!hit) return;
    onClose();
    open(hit.href);
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") at.value = Math.min(chosen + 1, hits.length - 1);
    else if (event.key === "ArrowUp") at.value = Math.max(chosen - 1, 0);
    else if (event.key === "Enter") go(hits[chosen]);
    else if (event.key === "Escape") onClose();
    else return;
    event.preventDefault();
  };
  return (
    <div class="veil" onClick={(event) => event.target === event.currentTarget && onClose()}>
      <div class="finder" role="dialog" aria-label={texts.find.label}>
        <label class="row">
          <Icon name="find" />
          <input
            ref={input}
            value={text.value}
            placeholder={texts.find.hint}
            role="combobox"
            aria-label={texts.find.label}
            aria-expanded
            aria-controls="found"
            aria-activedescendant={hits.length ? `found-${chosen}` : undefined}
            onInput={(event) => {
              text.value = event.currentTarget.value;
              at.value = 0;
            }}
            onKeyDown={press}
          />
        </label>
        <ul role="listbox" id="found" aria-label={texts.find.label}>
          {hits.map((hit, index) => (
            <li key={hit.href} id={`found-${index}`} role="option" aria-selected={index === chosen} onClick={() => go(hit)} onMouseEnter={() => (at.value = index)}>
              {hit.run ? <Glyph status={glyphOf(hit.run)} /> : <Icon name={hit.note === texts.find.page ? "right" : "graph"} />}
              <span class="cut grow">{hit.label}</span>
              <span class="quiet cut">{hit.note}</span>
            </li>
          ))}
        </ul>
        {!hits.length && <p class="quiet none">{texts.find.none}</p>}
      </div>
    </div>
  );
}

function findHits(text: string, runs: Run[], graphs: Graph[]): Hit[] {
  const fits = (...words: string[]): boolean => words.some((word) => word.toLowerCase().includes(text));
  const hits: Hit[] = [];
  if (/^run_[0-9a-z]{8,}$/.test(text) && !runs.some((run) => run.id === text)) hits.push({ href: hrefOf(["runs", text]), label: text, note: texts.find.run });
  for (const name of PAGES) if (text && fits(texts.nav[name])) hits.push({ href: hrefOf([name]), label: texts.nav[name], note: texts.find.page });
  for (const graph of graphs) if (fits(graph.name)) hits.push({ href: hrefOf(["runs"], { graph: graph.name }), label: graph.name, note: texts.find.graph });
  for (const run of runs) {
    if (fits(run.id, run.graph, run.threadId, ...run.tags)) {
      hits.push({ href: hrefOf(["runs", run.id]), label: `${run.graph}  ${shortId(run.id)}`, note: formatAgo(run.createdAt, now.peek()), run });
    }
  }
  return hits.slice(0, 12);
}
