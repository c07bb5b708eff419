/* One field of a form: its label, what it allows, its control, help or what is wrong. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Json } from "../api/types";
import { texts } from "../texts";
import { Group, List, MapOf, OneOf, Optional, Tuple } from "./containers";
import { Choice, DateInput, Moment, NumberInput, Prose, Several, Text, Tokens, Truth, YesNo } from "./inputs";
import { JsonEditor } from "./JsonEditor";
import { constraintOf, type Field } from "./schema";
import { type Problems, validate } from "./validate";

export interface FieldProps {
  field: Field;
  name: string;
  path: string;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
  problems: Problems;
  isRequired: boolean;
  idPrefix: string;
}

export interface ControlProps extends FieldProps {
  id: string;
  label: string;
  /** The name of a control that no label is for. */
  spoken?: string | undefined;
  isWrong: boolean;
}

interface FrameProps {
  id: string;
  path: string;
  label: ComponentChildren;
  note?: string;
  help?: ComponentChildren;
  problem?: string | undefined;
  /** False if the label names a group of controls rather than one. */
  isLabelled?: boolean;
  onLeave?: () => void;
  children: ComponentChildren;
}

/** What stands around the control of a field, also of one that is not made from a schema. */
export function FieldFrame({ id, path, label, note, help, problem, isLabelled = true, onLeave, children }: FrameProps) {
  const head = (
    <>
      {label}
      {note && <small>{note}</small>}
    </>
  );
  return (
    <div class={`field${problem ? " wrong" : ""}`} data-path={path} onFocusOut={onLeave}>
      {isLabelled ? (
        <label for={id}>{head}</label>
      ) : (
        <span class="label" id={`${id}-label`}>
          {head}
        </span>
      )}
      {children}
      {(problem || help) && (
        <span class="help" id={`${id}-help`} role={problem ? "alert" : undefined}>
          {problem || help}
        </span>
      )}
    </div>
  );
}

const LABELLED = ["text", "prose", "moment", "date", "time", "number", "integer", "json", "tokens", "oneOf"];

export function FieldView(props: FieldProps) {
  const { field, name, path, value, problems, isRequired, idPrefix } = props;
  const id = `${idPrefix}-${path || "value"}`;
  const left = useSignal(false);
  const own = left.value && value !== undefined ? validate(field, value, isRequired).get("") : undefined;
  const problem = problems.get(path) ?? own;
  const label = field.label || name || texts.start.input;
  if (field.kind === "constant" && (isRequired || value !== undefined)) return null; // there is nothing to choose
  const isTick = field.kind === "truth" && !field.isNullable && (isRequired || field.schema.default !== undefined);
  const inner = { ...props, id, label, isWrong: Boolean(problem) };
  if (isTick) return <Truth {...inner} problem={problem} />;
  return (
    <FieldFrame
      id={id}
      path={path}
      label={label}
      note={constraintOf(field, isRequired)}
      help={field.help}
      problem={problem}
      isLabelled={LABELLED.includes(field.kind) || (field.kind === "choice" && field.choices.length > 4)}
      onLeave={() => (left.value = true)}
    >
      <Control {...inner} />
    </FieldFrame>
  );
}

const CONTAINERS = ["group", "list", "tuple", "map"];

/** The control of a field. A container that may be left out is added, and removed again, by a button. */
export function Control(props: ControlProps) {
  const { field, id, value, onChange, isRequired } = props;
  if (CONTAINERS.includes(field.kind) && (!isRequired || field.isNullable)) {
    return (
      <Optional {...props}>
        <Container {...props} />
      </Optional>
    );
  }
  switch (field.kind) {
    case "text":
      return <Text {...props} />;
    case "prose":
      return <Prose {...props} />;
    case "moment":
      return <Moment {...props} />;
    case "date":
    case "time":
      return <DateInput {...props} />;
    case "number":
    case "integer":
      return <NumberInput {...props} />;
    case "truth":
      return <YesNo {...props} />;
    case "choice":
    case "constant":
      return <Choice {...props} />;
    case "several":
      return <Several {...props} />;
    case "tokens":
      return <Tokens {...props} />;
    case "oneOf":
      return <OneOf {...props} />;
    case "json":
      return <JsonEditor id={id} value={value} label={props.spoken} onChange={(next, problem) => !problem && onChange(next)} rows={3} />;
    default:
      return <Container {...props} />;
  }
}

function Container(props: ControlProps) {
  const { field, path, value, onChange, problems, idPrefix } = props;
  switch (field.kind) {
    case "list":
      return <List {...props} />;
    case "tuple":
      return <Tuple {...props} />;
    case "map":
      return <MapOf {...props} />;
    default:
      return (
        <div class="inner">
          <Group field={field} path={path} value={value} onChange={onChange} problems={problems} idPrefix={idPrefix} />
        </div>
      );
  }
}
