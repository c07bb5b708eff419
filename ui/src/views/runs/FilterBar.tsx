/* The filters of the list: chips that can be removed, and a menu that adds one by typing: name, then value. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Graph, Run } from "../../api/types";
import { Icon } from "../../parts/icons";
import { choose } from "../../router";
import { texts } from "../../texts";
import { type FilterName, readChips, STATUSES } from "./filters";

interface FilterBarProps {
  query: URLSearchParams;
  graphs: Graph[];
  known: Run[];
  isAdding: boolean;
  onAdd: (isAdding: boolean) => void;
  /** What stands at the end of the bar. */
  children?: ComponentChildren;
}

export function FilterBar({ query, graphs, known, isAdding, onAdd, children }: FilterBarProps) {
  return (
    <div class="bar-line">
      {readChips(query).map(({ name, operator, value }) => (
        <span class="filter" key={name}>
          <span class="op">{`${texts.runs.filters[name]} ${operator}`}</span>
          <span>{value}</span>
          <button type="button" class="x" aria-label={`${texts.runs.removeFilter}: ${texts.runs.filters[name]}`} onClick={() => choose({ [name]: null }, true)}>
            <Icon name="close" />
          </button>
        </span>
      ))}
      <span class="has-menu">
        <button type="button" class="filter new" aria-expanded={isAdding} onClick={() => onAdd(!isAdding)}>
          <span>
            <Icon name="plus" /> {texts.runs.filter} <kbd class="only-wide">F</kbd>
          </span>
        </button>
        {isAdding && <FilterMenu query={query} graphs={graphs} known={known} onClose={() => onAdd(false)} />}
      </span>
      {children}
    </div>
  );
}

const NAMES: FilterName[] = ["status", "graph", "since", "tag", "thread", "queue", "metadata", "text"];

function FilterMenu({ query, graphs, known, onClose }: Omit<FilterBarProps, "isAdding" | "onAdd" | "children"> & { onClose: () => void }) {
  const name = useSignal<FilterName | null>(null);
  const text = useSignal("");
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    box.current?.querySelector("input")?.focus();
  }, [name.value]);
  useEffect(() => {
    const leave = (event: Event): void => {
      if (!box.current?.parentElement?.contains(event.target as Node)) onClose();
    };
    document.addEventListener("pointerdown", leave);
    return () => document.removeEventListener("pointerdown", leave);
  }, []);
  const options = name.value ? valuesOf(name.value, graphs, known) : NAMES.map((key) => [key, texts.runs.filters[key]] as [string, string]);
  const typed = text.value.trim();
  const fitting = options.filter(([, label]) => label.toLowerCase().includes(typed.toLowerCase()));
  const take = (value: string): void => {
    text.value = "";
    if (!name.value) {
      name.value = value as FilterName;
      return;
    }
    const isMany = name.value === "status" || name.value === "tag" || name.value === "metadata";
    choose({ [name.value]: isMany ? [...new Set([...query.getAll(name.value), value])] : value }, true);
    onClose();
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === "Escape") onClose();
    else if (event.key === "Enter") {
      const free = name.value && ["tag", "thread", "queue", "metadata", "text"].includes(name.value) ? typed : "";
      const value = fitting[0]?.[0] ?? free;
      if (value) take(value);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu under" ref={box} onKeyDown={press}>
      <input
        value={text.value}
        aria-label={name.value ? texts.runs.filters[name.value] : texts.runs.filter}
        placeholder={name.value ? (name.value === "metadata" ? "name:value" : texts.runs.filters[name.value]) : texts.runs.filter}
        onInput={(event) => (text.value = event.currentTarget.value)}
      />
      {fitting.map(([value, label]) => (
        <button type="button" key={value} onClick={() => take(value)}>
          {label}
        </button>
      ))}
    </div>
  );
}

function valuesOf(name: FilterName, graphs: Graph[], known: Run[]): [string, string][] {
  const same = (values: Iterable<string>): [string, string][] => [...new Set(values)].sort().map((value) => [value, value]);
  switch (name) {
    case "status":
      return STATUSES.map((status) => [status, texts.runStatus[status]]);
    case "graph":
      return same([...graphs.map((graph) => graph.name), ...known.map((run) => run.graph)]);
    case "since":
      return Object.entries(texts.runs.since);
    case "tag":
      return same(known.flatMap((run) => run.tags));
    case "queue":
      return same(known.map((run) => run.queue));
    case "thread":
      return same(known.map((run) => run.threadId).filter((thread) => !thread.startsWith("run_")));
    default:
      return [];
  }
}
