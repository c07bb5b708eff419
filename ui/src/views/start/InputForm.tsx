/* The form of an input. What is said to an agent is one text, although its input is a list of messages. */

import type { Json } from "../../api/types";
import { FieldView } from "../../form/Fields";
import { Form, type FormProps } from "../../form/Form";
import { type Field } from "../../form/schema";
import { asMap } from "../../json";
import { texts } from "../../texts";
import { isOneMessage } from "./envelope";

export function InputForm(props: FormProps) {
  const { field, value, onChange, problems, idPrefix } = props;
  const values = asMap(value);
  const messages = field.fields.messages;
  if (!messages || !isOneMessage(messages, values.messages)) return <Form {...props} />;
  const { messages: _, ...others } = field.fields;
  const content = messages.item?.fields.content as Field;
  const change = (next: Json | undefined): void => onChange({ ...values, messages: [{ role: "user", content: next ?? "" }] });
  return (
    <>
      <FieldView
        field={{ ...content, label: texts.start.message }}
        name="content"
        path="messages.0.content"
        value={asMap((values.messages as Json[])[0]).content}
        onChange={change}
        problems={problems}
        isRequired
        idPrefix={idPrefix}
      />
      {Object.keys(others).length > 0 && <Form {...props} field={{ ...field, fields: others }} />}
    </>
  );
}
