/* A form made from a JSON Schema. One column, numbers two in a row; the switch Form | JSON keeps both the same. */

import type { Json } from "../api/types";
import { Group } from "./containers";
import { FieldView } from "./Fields";
import type { Field } from "./schema";
import type { Problems } from "./validate";

export interface FormProps {
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
