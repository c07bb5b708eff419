/* A field that finds a run: by its id, graph, thread, tags and metadata. Without a text it offers the newest of a graph. */

import { useSignal } from "@preact/signals";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import { api } from "../../api/client";
import type { Run } from "../../api/types";
import { formatAgo, formatValue, shortId } from "../../format";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { now } from "../../state/clock";
import { texts } from "../../texts";
import { glyphOf, sentenceOf } from "../runs/sentence";

const words = texts.compare;
const MOST = 8;

interface RunPickerProps {
  label: string;
  /** The graph whose runs are offered first. */
  graph: string | null;
  /** The run on the other side, which is not offered. */
  except: string | null;
  hasFocus: boolean;
  onChoose: (id: string) => void;
  onClose: () => void;
}

export function RunPicker({ label, graph, except, hasFocus, onChoose, onClose }: RunPickerProps) {
  const id = useId();
  const text = useSignal("");
  const asked = useSignal("");
  const at = useSignal(0);
  const isOpen = useSignal(hasFocus);
  const isAwaited = useSignal(false);
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    if (hasFocus) input.current?.focus();
  }, []);
  useEffect(() => {
    const timer = setTimeout(() => (asked.value = text.value.trim()), 200);
    return () => clearTimeout(timer);
  }, [text.value]);
  const [found] = useLoad((signal) => findRuns(asked.value, graph, signal), [asked.value, graph]);
  const isCurrent = text.value.trim() === asked.value && found.value.data !== null;
  const runs = isCurrent ? (found.value.data ?? []).filter((run) => run.id !== except).slice(0, MOST) : [];
  const here = Math.min(at.value, runs.length - 1);
  const take = (run: Run | undefined): void => {
    if (run) onChoose(run.id);
    else isAwaited.value = !isCurrent; // Enter was pressed before the answer is there
  };
  useEffect(() => {
    if (isCurrent && isAwaited.value) take(runs[0]);
  }, [isCurrent]);
  const press = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") at.value = Math.min(here + 1, runs.length - 1);
    else if (event.key === "ArrowUp") at.value = Math.max(here - 1, 0);
    else if (event.key === "Enter") take(runs[here]);
    else if (event.key === "Escape") onClose();
    else return;
    isOpen.value = event.key !== "Escape";
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="picker" onFocusOut={(event) => !event.currentTarget.contains(event.relatedTarget as Node | null) && (isOpen.value = false)}>
      <input
        ref={input}
        class="input slim"
        role="combobox"
        aria-expanded={isOpen.value}
        aria-controls={id}
        aria-autocomplete="list"
        aria-activedescendant={isOpen.value && runs[here] ? `${id}-${here}` : undefined}
        aria-label={label}
        placeholder={words.find}
        value={text.value}
        onFocus={() => (isOpen.value = true)}
        onClick={() => (isOpen.value = true)}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          at.value = 0;
          isAwaited.value = false;
          isOpen.value = true;
        }}
        onKeyDown={press}
      />
      {isOpen.value && (
        <ul class="menu" role="listbox" id={id} aria-label={label} aria-busy={!isCurrent}>
          {runs.map((run, index) => (
            <li key={run.id} id={`${id}-${index}`} role="option" aria-selected={index === here} onPointerDown={(event) => event.preventDefault()} onClick={() => take(run)} onMouseEnter={() => (at.value = index)}>
              <Glyph status={glyphOf(run)} />
              <span class="cut grow">
                <b>{run.graph}</b> <span class="mono quiet">{shortId(run.id)}</span>
              </span>
              <span class="cut quiet">{says(run)}</span>
              <span class="quiet nowrap">{formatAgo(run.createdAt, now.value)}</span>
            </li>
          ))}
          {isCurrent && !runs.length && (
            <li class="quiet" role="option" aria-selected={false} aria-disabled>
              {texts.find.none}
            </li>
          )}
        </ul>
      )}
    </div>
  );
}

function says(run: Run): string {
  const { lead, rest } = sentenceOf(run);
  return `${lead} ${rest}`.trim() || formatValue(run.input, 80);
}

/** Find runs by a text, also by the beginning of an id as lists show it. */
async function findRuns(text: string, graph: string | null, signal: AbortSignal): Promise<Run[]> {
  const query = new URLSearchParams({ pageSize: String(MOST + 1) });
  if (text) query.set("text", text.replace(/^run_(?=[0-9a-f]{8}$)/, "")); // a short id leaves out the beginning
  else if (graph) query.set("graph", graph);
  return (await api.runs(query, signal)).items;
}
