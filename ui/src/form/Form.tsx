/* A form made from a JSON Schema. One column, numbers two in a row; the switch Form | JSON keeps both the same. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Json } from "../api/types";
import { texts } from "../texts";
import { FieldView, isHalf } from "./Fields";
import type { Field } from "./schema";
import type { Problems } from "./validate";

interface FormProps {
  field: Field;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
  /** Problems are shown only when somebody has tried to send, or has left the field. */
  problems: Problems;
  idPrefix: string;
}

/** The fields of the outermost group; anything else is one field. */
export function Form({ field, value, onChange, problems, idPrefix }: FormProps) {
  if (field.kind !== "group") {
    return (
      <div class="form">
        <FieldView field={field} name="" path="" value={value} onChange={onChange} problems={problems} isRequired idPrefix={idPrefix} />
      </div>
    );
  }
  return <Group field={field} path="" value={value} onChange={onChange} problems={problems} idPrefix={idPrefix} />;
}

interface GroupProps extends FormProps {
  path: string;
}

export function Group({ field, path, value, onChange, problems, idPrefix }: GroupProps) {
  const values = value && typeof value === "object" && !Array.isArray(value) ? value : {};
  const change = (name: string) => (next: Json | undefined): void => {
    const { [name]: _, ...rest } = values;
    onChange(next === undefined ? rest : orderAs(field, { ...rest, [name]: next }));
  };
  return (
    <div class="form">
      {pairUp(Object.entries(field.fields)).map((row) => {
        const views = row.map(([name, inner]) => (
          <FieldView key={name} field={inner} name={name} path={path ? `${path}.${name}` : name} value={values[name]} onChange={change(name)} problems={problems} isRequired={field.required.includes(name)} idPrefix={idPrefix} />
        ));
        return views.length > 1 ? (
          <div class="pair" key={row[0]?.[0]}>
            {views}
          </div>
        ) : (
          views
        );
      })}
    </div>
  );
}

function orderAs(field: Field, values: Record<string, Json>): Record<string, Json> {
  const names = [...Object.keys(field.fields).filter((name) => name in values), ...Object.keys(values).filter((name) => !(name in field.fields))];
  return Object.fromEntries(names.map((name) => [name, values[name] as Json]));
}

/** Short fields that follow each other share a row. */
function pairUp(entries: [string, Field][]): [string, Field][][] {
  const rows: [string, Field][][] = [];
  for (const entry of entries) {
    const last = rows[rows.length - 1];
    if (last?.length === 1 && last[0] && isHalf(last[0][1]) && isHalf(entry[1])) last.push(entry);
    else rows.push([entry]);
  }
  return rows;
}

/** A value as text that can be edited; the text stays as it is typed while it is not JSON. */
export function JsonEditor({ value, onChange, id, rows = 8 }: { value: Json | undefined; onChange: (value: Json | undefined, problem: string | null) => void; id: string; rows?: number }) {
  const text = useSignal(value === undefined ? "" : JSON.stringify(value, null, 2));
  const problem = useSignal<string | null>(null);
  const sent = useSignal(value);
  useEffect(() => {
    if (value === sent.value) return;
    sent.value = value;
    text.value = value === undefined ? "" : JSON.stringify(value, null, 2);
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
    onChange(problem.value ? (sent.value as Json | undefined) : read, problem.value);
  };
  return (
    <>
      <textarea class="input mono" id={id} rows={Math.min(24, Math.max(rows, text.value.split("\n").length))} value={text.value} spellcheck={false} aria-invalid={problem.value !== null} onInput={(event) => edit(event.currentTarget.value)} />
      {problem.value && <span class="help s-failed">{problem.value}</span>}
    </>
  );
}
