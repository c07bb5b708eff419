/* Fields that have parts: groups, lists, maps, and one of several kinds. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Json, JsonMap } from "../api/types";
import { Button } from "../parts/controls";
import { texts } from "../texts";
import { Control, type ControlProps, FieldView } from "./Fields";
import type { FormProps } from "./Form";
import { beginningOf, defaultOf, type Field } from "./schema";
import { asMap } from "../json";
import { kindOf } from "./validate";

const words = texts.form;

const joined = (path: string, name: string | number): string => (path ? `${path}.${name}` : String(name));

/** Fields that take half a row. */
function isHalf(field: Field): boolean {
  return ["number", "integer", "moment", "date", "time"].includes(field.kind);
}

export function Group({ field, path, value, onChange, problems, idPrefix }: FormProps & { path: string }) {
  const values = asMap(value);
  const change = (name: string) => (next: Json | undefined): void => {
    const { [name]: _, ...rest } = values;
    onChange(next === undefined ? rest : orderAs(field, { ...rest, [name]: next }));
  };
  return (
    <div class="form">
      {pairUp(Object.entries(field.fields)).map((row) => {
        const views = row.map(([name, inner]) => (
          <FieldView key={name} field={inner} name={name} path={joined(path, name)} value={values[name]} onChange={change(name)} problems={problems} isRequired={field.required.includes(name)} idPrefix={idPrefix} />
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

/** Values in the order of the fields, which is how a person reads them as JSON. */
function orderAs(field: Field, values: JsonMap): JsonMap {
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

/** A container that may be left out: a button adds it, and another removes it again. */
export function Optional({ field, value, onChange, label, children }: ControlProps & { children: ComponentChildren }) {
  if (value === undefined || value === null) {
    return (
      <div>
        <Button look="small" icon="plus" label={`${words.add} ${label}`} onClick={() => onChange(firstOf(field))}>
          {words.add}
        </Button>
      </div>
    );
  }
  return (
    <div class="optional">
      {children}
      <Button look="bare small" icon="close" label={`${words.remove} ${label}`} onClick={() => onChange(field.isNullable && field.schema.default === null ? null : undefined)} />
    </div>
  );
}

/** What a container has once somebody wants it: a list or a map with one item to fill in. */
function firstOf(field: Field): Json {
  if (!field.item) return beginningOf(field);
  return field.kind === "map" ? { "": beginningOf(field.item) } : [beginningOf(field.item)];
}

export function List(props: ControlProps) {
  const { path, value, onChange, label } = props;
  const items = Array.isArray(value) ? value : [];
  const item = props.field.item as Field;
  return (
    <div class="inner" role="group" aria-label={label}>
      {items.map((each, index) => (
        <div class="listed" key={index}>
          <Part {...props} field={item} name={String(index)} path={joined(path, index)} label={`${label} ${index + 1}`} value={each} onChange={(next) => onChange(items.map((old, at) => (at === index ? (next ?? null) : old)))} />
          <Button look="bare small" icon="close" label={`${words.remove} ${label} ${index + 1}`} onClick={() => onChange(items.filter((_, at) => at !== index))} />
        </div>
      ))}
      <div>
        <Button look="small" icon="plus" label={`${words.add} ${label}`} onClick={() => onChange([...items, beginningOf(item)])}>
          {words.add}
        </Button>
      </div>
    </div>
  );
}

/** An item of a list: a group as its fields, anything else as one control. */
function Part(props: ControlProps) {
  const { field, path, value, onChange, problems, idPrefix, label } = props;
  if (field.kind === "group") return <Group field={field} path={path} value={value} onChange={onChange} problems={problems} idPrefix={idPrefix} />;
  const problem = problems.get(path);
  return (
    <div class={`field${problem ? " wrong" : ""}`} data-path={path}>
      <Control {...props} isRequired id={`${idPrefix}-${path}`} spoken={label} isWrong={Boolean(problem)} />
      {problem && (
        <span class="help" id={`${idPrefix}-${path}-help`} role="alert">
          {problem}
        </span>
      )}
    </div>
  );
}

/** A list of a certain length, in which each place has its own kind. */
export function Tuple(props: ControlProps) {
  const { field, path, value, onChange, problems, idPrefix } = props;
  const items = Array.isArray(value) ? value : [];
  const places = Object.entries(field.fields);
  const change = (index: number) => (next: Json | undefined): void => onChange(places.map((_, at) => (at === index ? (next ?? null) : (items[at] ?? null))));
  return (
    <div class="inner form">
      {places.map(([index, inner]) => (
        <FieldView key={index} field={inner} name={index} path={joined(path, index)} value={items[Number(index)] ?? undefined} onChange={change(Number(index))} problems={problems} isRequired idPrefix={idPrefix} />
      ))}
    </div>
  );
}

/** Names with a value each. A name is kept as it is typed, also while it is empty or there twice. */
export function MapOf(props: ControlProps) {
  const { path, value, onChange, label, idPrefix } = props;
  const item = props.field.item as Field;
  const given = Object.entries(asMap(value));
  const drafts = useSignal<[string, Json][] | null>(null);
  const isSame = JSON.stringify(Object.fromEntries(drafts.value ?? [])) === JSON.stringify(Object.fromEntries(given));
  const rows = drafts.value && isSame ? drafts.value : given;
  const change = (next: [string, Json][]): void => {
    drafts.value = next;
    onChange(Object.fromEntries(next));
  };
  return (
    <div class="inner" role="group" aria-label={label}>
      {rows.map(([name, each], index) => (
        <div class="listed mapped" key={index}>
          <input class="input mono" aria-label={`${words.mapName} ${index + 1}`} placeholder={words.mapName} id={`${idPrefix}-${path}-name-${index}`} value={name} onInput={(event) => change(rows.map((row, at) => (at === index ? [event.currentTarget.value, row[1]] : row)))} />
          <Part {...props} field={item} name={name} path={joined(path, name)} label={`${words.mapValue} ${name || index + 1}`} value={each} onChange={(next) => change(rows.map((row, at) => (at === index ? [row[0], next ?? null] : row)))} />
          <Button look="bare small" icon="close" label={`${words.remove} ${name || index + 1}`} onClick={() => change(rows.filter((_, at) => at !== index))} />
        </div>
      ))}
      <div>
        <Button look="small" icon="plus" label={`${words.add} ${label}`} onClick={() => change([...rows, ["", beginningOf(item)]])}>
          {words.add}
        </Button>
      </div>
    </div>
  );
}

/** One of several kinds: which one it is, and its fields. */
export function OneOf(props: ControlProps) {
  const { field, id, path, value, onChange, isRequired, label } = props;
  const wanted = useSignal<number | null>(null);
  const mayBeNone = !isRequired || field.isNullable;
  const found = kindOf(field, value);
  const fitsWanted = wanted.value !== null && (found < 0 || found === wanted.value || !isTold(field));
  const chosen = fitsWanted ? (wanted.value as number) : found >= 0 ? found : mayBeNone ? -1 : 0;
  const kind = field.kinds[chosen];
  const choose = (index: number): void => {
    wanted.value = index;
    const next = field.kinds[index];
    onChange(next ? (defaultOf(next) ?? (next.kind === "group" || next.kind === "list" || next.kind === "map" ? beginningOf(next) : undefined)) : field.isNullable && isRequired ? null : undefined);
  };
  const isSimple = kind && !["group", "list", "map", "tuple", "json", "prose"].includes(kind.kind);
  const select = (
    <select class="input" id={id} aria-label={props.spoken} value={chosen} onChange={(event) => choose(Number(event.currentTarget.value))}>
      {mayBeNone && <option value={-1}>{words.nothing}</option>}
      {field.kinds.map((each, index) => (
        <option key={index} value={index}>
          {nameOf(each, index, props.name)}
        </option>
      ))}
    </select>
  );
  if (!kind || kind.kind === "constant") return select;
  return (
    <div class={isSimple ? "kinded" : "stack"}>
      {select}
      {kind.kind === "group" ? (
        <div class="inner">
          <Group field={kind} path={path} value={value} onChange={onChange} problems={props.problems} idPrefix={props.idPrefix} />
        </div>
      ) : (
        <div>
          <Control {...props} field={kind} isRequired id={`${id}-kind`} spoken={`${label}, ${nameOf(kind, chosen, props.name)}`} />
        </div>
      )}
    </div>
  );
}

/** Whether a value says itself of which kind it is, by a constant in it. */
function isTold(field: Field): boolean {
  return field.kinds.every((kind) => Object.values(kind.fields).some((inner) => inner.kind === "constant"));
}

function nameOf(kind: Field, index: number, name: string): string {
  if (kind.kind === "constant") return String(kind.choices[0] ?? words.nothing);
  if (kind.label && kind.label !== name) return kind.label;
  const constant = Object.values(kind.fields).find((inner) => inner.kind === "constant")?.choices[0];
  return String(kind.schema.title ?? constant ?? words.kinds[kind.kind] ?? words.types[String(kind.schema.type)] ?? `${words.kind} ${index + 1}`);
}
