/* A value as text that can be edited; the text stays as it is typed while it is not JSON. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Json } from "../api/types";
import { texts } from "../texts";

interface JsonEditorProps {
  value: Json | undefined;
  onChange: (value: Json | undefined, problem: string | null) => void;
  id: string;
  rows?: number;
  label?: string | undefined;
}

export function JsonEditor({ value, onChange, id, rows = 8, label }: JsonEditorProps) {
  const text = useSignal(toText(value));
  const problem = useSignal<string | null>(null);
  const sent = useSignal(value);
  useEffect(() => {
    if (value === sent.value) return;
    sent.value = value;
    text.value = toText(value);
    problem.value = null;
  }, [value]);
  const edit = (next: string): void => {
    text.value = next;
    let read: Json | undefined;
    try {
      read = next.trim() ? (JSON.parse(next) as Json) : undefined;
      problem.value = null;
      sent.value = read;
    } catch (error) {
      problem.value = texts.form.json(error instanceof Error ? error.message : String(error));
    }
    onChange(problem.value ? sent.value : read, problem.value);
  };
  const lines = Math.min(24, Math.max(rows, text.value.split("\n").length));
  const isBroken = problem.value !== null;
  return (
    <>
      <textarea class="input mono" id={id} rows={lines} value={text.value} spellcheck={false} aria-label={label} aria-invalid={isBroken} aria-describedby={isBroken ? `${id}-json` : undefined} data-broken={isBroken ? "" : undefined} onInput={(event) => edit(event.currentTarget.value)} />
      {isBroken && (
        <span class="help s-failed" id={`${id}-json`} role="alert">
          {problem.value}
        </span>
      )}
    </>
  );
}

function toText(value: Json | undefined): string {
  return value === undefined ? "" : JSON.stringify(value, null, 2);
}
