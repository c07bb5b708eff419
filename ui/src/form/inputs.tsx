/* Controls for values that have no parts, and for lists of texts. */

import { useSignal } from "@preact/signals";
import type { Json } from "../api/types";
import { formatValue } from "../format";
import { Segments } from "../parts/controls";
import { Icon } from "../parts/icons";
import { texts } from "../texts";
import type { ControlProps } from "./Fields";
import type { Field } from "./schema";

const words = texts.form;

/** What all controls tell a screen reader. */
function spokenOf({ id, spoken, isRequired, isWrong }: ControlProps) {
  return { id, "aria-label": spoken, "aria-describedby": `${id}-help`, "aria-required": isRequired, "aria-invalid": isWrong || undefined };
}

/** What an emptied control stands for: null if that is a value, else nothing. */
function emptied({ field, isRequired }: ControlProps): Json | undefined {
  return field.isNullable && isRequired ? null : undefined;
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : value === undefined || value === null ? "" : formatValue(value, 10_000);
}

const INPUT_TYPES: Record<string, string> = { email: "email", password: "password", uri: "url" };

export function Text(props: ControlProps) {
  const { field, id, value, onChange, isRequired } = props;
  const examples = Array.isArray(field.schema.examples) ? field.schema.examples.map(String) : [];
  const none = isRequired && !field.isNullable ? "" : emptied(props);
  return (
    <>
      <input
        class="input"
        {...spokenOf(props)}
        value={textOf(value)}
        type={INPUT_TYPES[String(field.schema.format)] ?? "text"}
        list={examples.length ? `${id}-examples` : undefined}
        placeholder={field.schema.format === "duration" ? words.durationExample : undefined}
        autocomplete={field.schema.format === "password" ? "off" : undefined}
        onInput={(event) => onChange(event.currentTarget.value || none)}
      />
      {examples.length > 0 && (
        <datalist id={`${id}-examples`}>
          {examples.map((example) => (
            <option key={example} value={example} />
          ))}
        </datalist>
      )}
    </>
  );
}

export function Prose(props: ControlProps) {
  const none = props.isRequired && !props.field.isNullable ? "" : emptied(props);
  return <textarea class="input prose" {...spokenOf(props)} value={textOf(props.value)} onInput={(event) => props.onChange(event.currentTarget.value || none)} />;
}

export function Moment(props: ControlProps) {
  const change = (text: string): void => props.onChange(text ? fromLocal(text) : emptied(props));
  return <input class="input" {...spokenOf(props)} type="datetime-local" step="60" value={toLocal(textOf(props.value))} onInput={(event) => change(event.currentTarget.value)} />;
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

/** A date, or a time of day. */
export function DateInput(props: ControlProps) {
  return <input class="input" {...spokenOf(props)} type={props.field.kind === "time" ? "time" : "date"} value={textOf(props.value)} onInput={(event) => props.onChange(event.currentTarget.value || emptied(props))} />;
}

/** A number, or the text as it is typed while it is not one: then the field says what is wrong. */
export function NumberInput(props: ControlProps) {
  const { field, value, onChange } = props;
  const typed = useSignal<string | null>(null); // `1.` and `1.0` are what somebody types on the way to `1.05`
  const text = typed.value !== null && toNumber(typed.value) === value ? typed.value : value === undefined || value === null ? "" : String(value);
  const change = (next: string): void => {
    typed.value = next;
    onChange(next.trim() ? toNumber(next) : emptied(props));
  };
  return <input class="input" {...spokenOf(props)} inputMode={field.kind === "integer" ? "numeric" : "decimal"} value={text} onInput={(event) => change(event.currentTarget.value)} />;
}

function toNumber(typed: string): Json {
  const number = Number(typed.replace(",", "."));
  return typed.trim() && Number.isFinite(number) ? number : typed;
}

const labelOf = (choice: Json): string => (choice === null ? words.nothing : formatValue(choice, 60));

export function Choice(props: ControlProps) {
  const { field, id, value, onChange, isRequired, label } = props;
  const key = value === undefined ? "" : JSON.stringify(value);
  const take = (text: string): void => onChange(text ? (JSON.parse(text) as Json) : emptied(props));
  const isShort = field.choices.length <= 4 && field.choices.every((choice) => labelOf(choice).length <= 16);
  if (isShort) {
    const choices = field.choices.map((choice) => ({ key: JSON.stringify(choice), label: labelOf(choice) }));
    return (
      <div>
        <Segments label={label} chosen={key} onChoose={(text) => take(text === key && (!isRequired || field.isNullable) ? "" : text)} choices={choices} />
      </div>
    );
  }
  return (
    <select class="input" {...spokenOf(props)} aria-label={label} id={id} value={key} onChange={(event) => take(event.currentTarget.value)}>
      <option value="">{isRequired && !field.isNullable ? words.choose : words.nothing}</option>
      {field.choices.map((choice) => (
        <option key={JSON.stringify(choice)} value={JSON.stringify(choice)}>
          {labelOf(choice)}
        </option>
      ))}
    </select>
  );
}

/** Any of several choices: a tick for each. */
export function Several({ field, id, value, onChange, label }: ControlProps) {
  const item = field.item as Field;
  const chosen = Array.isArray(value) ? value.map((each) => JSON.stringify(each)) : [];
  const toggle = (choice: Json): void => {
    const key = JSON.stringify(choice);
    const next = item.choices.filter((each) => (JSON.stringify(each) === key ? !chosen.includes(key) : chosen.includes(JSON.stringify(each))));
    onChange(next);
  };
  return (
    <div class="ticks" role="group" aria-label={label}>
      {item.choices.map((choice, index) => (
        <label class="switch" key={JSON.stringify(choice)}>
          <input type="checkbox" class="tick" id={`${id}-${index}`} checked={chosen.includes(JSON.stringify(choice))} onChange={() => toggle(choice)} />
          {labelOf(choice)}
        </label>
      ))}
    </div>
  );
}

export function Truth(props: ControlProps & { problem: string | undefined }) {
  const { field, path, id, value, onChange, label, problem } = props;
  return (
    <div class={`field${problem ? " wrong" : ""}`} data-path={path}>
      <label class="switch">
        <input type="checkbox" class="tick" id={id} aria-describedby={`${id}-help`} checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />
        {label}
      </label>
      {(problem ?? field.help) && (
        <span class="help" id={`${id}-help`} role={problem ? "alert" : undefined}>
          {problem ?? field.help}
        </span>
      )}
    </div>
  );
}

/** True, false, or neither: pressing the chosen one again leaves it open. */
export function YesNo(props: ControlProps) {
  const { value, onChange, label, isRequired, field } = props;
  const key = value === true ? "yes" : value === false ? "no" : "";
  const choose = (next: string): void => onChange(next === key && (!isRequired || field.isNullable) ? emptied(props) : next === "yes");
  return (
    <div>
      <Segments
        label={label}
        chosen={key}
        onChoose={choose}
        choices={[
          { key: "yes", label: words.yes },
          { key: "no", label: words.no },
        ]}
      />
    </div>
  );
}

/** A list of texts: each is a token, Enter or a comma ends it. */
export function Tokens(props: ControlProps) {
  const { value, onChange } = props;
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
      <input {...spokenOf(props)} value={text.value} placeholder={items.length ? undefined : words.tokensHint} onInput={(event) => (text.value = event.currentTarget.value)} onKeyDown={press} onBlur={add} />
    </div>
  );
}
