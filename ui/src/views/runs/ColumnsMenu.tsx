/* The menu of the columns of the list. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../../parts/icons";
import { texts } from "../../texts";
import { COLUMNS, hiddenColumns, toggleColumn } from "./columns";

const words = texts.runs;

export function ColumnsMenu() {
  const isOpen = useSignal(false);
  const box = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (!isOpen.value) return undefined;
    box.current?.querySelector<HTMLElement>(".menu input")?.focus();
    const leave = (event: Event): void => {
      if (!box.current?.contains(event.target as Node)) isOpen.value = false;
    };
    document.addEventListener("pointerdown", leave);
    return () => document.removeEventListener("pointerdown", leave);
  }, [isOpen.value]);
  const press = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || !isOpen.value) return;
    event.stopPropagation();
    isOpen.value = false;
    box.current?.querySelector("button")?.focus();
  };
  const hidden = hiddenColumns();
  return (
    <span class="has-menu columns only-wide" ref={box} onKeyDown={press}>
      <button type="button" class="filter new" aria-expanded={isOpen.value} aria-controls="columns" onClick={() => (isOpen.value = !isOpen.value)}>
        <span>
          <Icon name="columns" /> {words.showColumns} {hidden.length > 0 && <span class="quiet">{words.hidden(hidden.length)}</span>}
        </span>
      </button>
      {isOpen.value && (
        <div class="menu under end" id="columns" role="group" aria-label={words.showColumns}>
          {COLUMNS.map((column) => (
            <label key={column}>
              <input type="checkbox" class="tick" checked={!hidden.includes(column)} onChange={() => toggleColumn(column)} />
              {words.columns[column]}
            </label>
          ))}
        </div>
      )}
    </span>
  );
}
