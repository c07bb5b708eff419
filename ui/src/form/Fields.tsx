/* One field of a form, by its kind. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Json } from "../api/types";
import { formatValue } from "../format";
import { Button, Segments } from "../parts/controls";
import { Icon } from "../parts/icons";
import { texts } from "../texts";
import { Group, JsonEditor } from "./Form";
import { constraintOf, defaultOf, type Field } from "./schema";
import { type Problems, validate } from "./validate";

const words = texts.form;

interface FieldProps {
  field: Field;
  name: string;
  path: string;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
  problems: Problems;
  isRequired: boolean;
  idPrefix: string;
}

/** Fields that take half a row: numbers, dates, and short choices. */
export function isHalf(field: Field): boolean {
  return ["number", "integer", "moment", "date"].includes(field.kind);
}

export function FieldView(props: FieldProps) {
  const { field, name, path, problems, isRequired, idPrefix } = props;
  const id = `${idPrefix}-${path || "value"}`;
  const left = useSignal(false);
  const own = left.value && props.value !== undefined ? validate(field, props.value, isRequired).get("") : undefined;
  const problem = problems.get(path) ?? own;
  if (field.kind === "truth") return <Truth {...props} id={id} problem={problem} />;
  const control = <Control {...props} id={id} />;
  const isLabelled = ["text", "prose", "moment", "date", "number", "integer", "json"].includes(field.kind) || (field.kind === "choice" && field.choices.length > 4);
  const label = field.label || name || texts.start.input;
  const note = constraintOf(field, isRequired);
  const head: ComponentChildren = (
    <>
      {label}
      <small>{note}</small>
    </>
  );
  return (
    <div class={`field${problem ? " wrong" : ""}`} onFocusOut={() => (left.value = true)} data-path={path}>
      {isLabelled ? (
        <label for={id}>{head}</label>
      ) : (
        <span class="label" id={`${id}-label`}>
          {head}
        </span>
      )}
      {control}
      {(problem ?? field.help) && <span class="help" id={`${id}-help`} role={problem ? "alert" : undefined}>{problem ?? field.help}</span>}
    </div>
  );
}

type ControlProps = FieldProps & { id: string };

function Control(props: ControlProps) {
  const { field, id, value, onChange } = props;
  const text = typeof value === "string" ? value : value === undefined || value === null ? "" : formatValue(value, 10_000);
  const none = props.isRequired && !field.isNullable ? undefined : field.isNullable && props.isRequired ? null : undefined;
  const described = { id, "aria-describedby": `${id}-help`, "aria-required": props.isRequired };
  switch (field.kind) {
    case "text":
      return <input class="input" {...described} value={text} type={field.schema.format === "email" ? "email" : field.schema.format === "password" ? "password" : "text"} onInput={(event) => onChange(event.currentTarget.value || (props.isRequired ? "" : none))} />;
    case "prose":
      return <textarea class="input prose" {...described} value={text} onInput={(event) => onChange(event.currentTarget.value)} />;
    case "moment":
      return <input class="input" {...described} type="datetime-local" step="60" value={toLocal(text)} onInput={(event) => onChange(event.currentTarget.value ? fromLocal(event.currentTarget.value) : none)} />;
    case "date":
      return <input class="input" {...described} type="date" value={text} onInput={(event) => onChange(event.currentTarget.value || none)} />;
    case "number":
    case "integer":
      return <NumberInput {...props} />;
    case "choice":
      return <ChoiceInput {...props} />;
    case "tokens":
      return <Tokens {...props} />;
    case "list":
      return <List {...props} />;
    case "group":
      return (
        <div class="inner">
          <Group field={field} path={props.path} value={value} onChange={onChange} problems={props.problems} idPrefix={props.idPrefix} />
        </div>
      );
    case "oneOf":
      return <OneOf {...props} />;
    default:
      return <JsonEditor id={id} value={value} onChange={(next, problem) => !problem && onChange(next)} rows={3} />;
  }
}

function toLocal(moment: string): string {
  const date = new Date(moment);
  if (!moment || Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** A local time with the offset of its zone at that time, as the API wants it. */
function fromLocal(local: string): string {
  const offset = -new Date(local).getTimezoneOffset();
  const pad = (number: number): string => String(Math.floor(Math.abs(number))).padStart(2, "0");
  return offset ? `${local}:00${offset < 0 ? "-" : "+"}${pad(offset / 60)}:${pad(offset % 60)}` : `${local}:00Z`;
}

/** A number, or the text as it is typed while it is not one: then the field says what is wrong. */
function NumberInput({ field, id, value, onChange, isRequired }: ControlProps) {
  const text = value === undefined || value === null ? "" : String(value);
  const read = (typed: string): Json | undefined => {
    if (!typed.trim()) return field.isNullable && isRequired ? null : undefined;
    const number = Number(typed.replace(",", "."));
    return Number.isFinite(number) && !/[.,]$/.test(typed) ? number : typed;
  };
  return <input class="input" id={id} aria-describedby={`${id}-help`} inputMode={field.kind === "integer" ? "numeric" : "decimal"} value={text} onInput={(event) => onChange(read(event.currentTarget.value))} />;
}

function ChoiceInput({ field, id, value, onChange, isRequired }: ControlProps) {
  const label = (choice: Json): string => (choice === null ? words.nothing : formatValue(choice, 40));
  const key = JSON.stringify(value ?? null);
  const take = (text: string): void => onChange(text ? (JSON.parse(text) as Json) : undefined);
  const isShort = field.choices.length <= 4 && field.choices.every((choice) => label(choice).length <= 16);
  if (isShort) {
    return (
      <div role="group" aria-labelledby={`${id}-label`}>
        <Segments label={field.label} chosen={value === undefined ? "" : key} onChoose={(text) => take(text === key && !isRequired ? "" : text)} choices={field.choices.map((choice) => ({ key: JSON.stringify(choice), label: label(choice) }))} />
      </div>
    );
  }
  return (
    <select class="input" id={id} value={value === undefined ? "" : key} onChange={(event) => take(event.currentTarget.value)}>
      <option value="">{words.choose}</option>
      {field.choices.map((choice) => (
        <option key={JSON.stringify(choice)} value={JSON.stringify(choice)}>
          {label(choice)}
        </option>
      ))}
    </select>
  );
}

function Truth({ field, name, id, value, onChange, problem }: FieldProps & { id: string; problem: string | undefined }) {
  return (
    <div class={`field${problem ? " wrong" : ""}`} data-path={name}>
      <label class="switch">
        <input type="checkbox" class="tick" id={id} checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />
        {field.label || name}
      </label>
      {(problem ?? field.help) && <span class="help">{problem ?? field.help}</span>}
    </div>
  );
}

/** A list of texts: each is a token, Enter or a comma ends it. */
function Tokens({ id, field, value, onChange }: ControlProps) {
  const items = Array.isArray(value) ? value.map(String) : [];
  const text = useSignal("");
  const add = (): void => {
    const item = text.value.trim();
    if (item) onChange([...items, item]);
    text.value = "";
  };
  const press = (event: KeyboardEvent): void => {
    if ((event.key === "Enter" && !event.ctrlKey && !event.metaKey) || event.key === ",") {
      if (!text.value.trim()) return;
      event.preventDefault();
      event.stopPropagation();
      add();
    } else if (event.key === "Backspace" && !text.value && items.length) onChange(items.slice(0, -1));
  };
  return (
    <div class="input tokens">
      {items.map((item, index) => (
        <span class="chip" key={index}>
          {item}
          <button type="button" aria-label={`${words.remove} ${item}`} onClick={() => onChange(items.filter((_, at) => at !== index))}>
            <Icon name="close" />
          </button>
        </span>
      ))}
      <input id={id} aria-label={field.label} value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} onKeyDown={press} onBlur={add} />
    </div>
  );
}

function List(props: ControlProps) {
  const { field, path, value, onChange, problems, idPrefix } = props;
  const items = Array.isArray(value) ? value : [];
  const item = field.item as Field;
  return (
    <div class="inner">
      {items.map((each, index) => (
        <div class="listed" key={index}>
          <Group field={item} path={`${path}.${index}`} value={each} onChange={(next) => onChange(items.map((old, at) => (at === index ? (next ?? {}) : old)))} problems={problems} idPrefix={idPrefix} />
          <Button look="bare small" icon="close" label={words.remove} onClick={() => onChange(items.filter((_, at) => at !== index))} />
        </div>
      ))}
      <Button look="small" icon="plus" onClick={() => onChange([...items, defaultOf(item) ?? {}])}>
        {words.add}
      </Button>
    </div>
  );
}

function OneOf(props: ControlProps) {
  const { field, id, value, onChange } = props;
  const fitting = field.kinds.findIndex((kind) => value !== undefined && validate(kind, value).size === 0);
  const chosen = useSignal(Math.max(0, fitting));
  const kind = field.kinds[chosen.value];
  const nameOf = (each: Field, index: number): string => (each.label && each.label !== props.name ? each.label : String(each.schema.title ?? words.types[String(each.schema.type)] ?? `${words.kind} ${index + 1}`));
  return (
    <>
      <select
        class="input"
        id={id}
        value={chosen.value}
        onChange={(event) => {
          chosen.value = Number(event.currentTarget.value);
          onChange(defaultOf(field.kinds[chosen.value] as Field));
        }}
      >
        {field.kinds.map((each, index) => (
          <option key={index} value={index}>
            {nameOf(each, index)}
          </option>
        ))}
      </select>
      {kind && (
        <div class="inner">
          <Control {...props} field={kind} id={`${id}-kind`} />
        </div>
      )}
    </>
  );
}
