/* A webhook: where messages go, and which. */

import { useSignal } from "@preact/signals";
import { api } from "../../api/client";
import type { Json, Webhook, WebhookWithSecret } from "../../api/types";
import { FieldView } from "../../form/Fields";
import type { Field } from "../../form/schema";
import { type Problems, validate } from "../../form/validate";
import { texts } from "../../texts";
import { Editor } from "./Editor";
import { DESCRIPTION, EVENTS, URL_FIELD } from "./fields";

const words = texts.schedules;
const FIELDS: [string, Field, boolean][] = [
  ["url", URL_FIELD, true],
  ["events", EVENTS, false],
  ["description", DESCRIPTION, false],
];

export function WebhookForm({ webhook }: { webhook: Webhook | null }) {
  const values = useSignal<Record<string, Json | undefined>>({ url: webhook?.url ?? "", events: webhook?.events ?? [], description: webhook?.description ?? "" });
  const check = (): Problems => {
    const found: Problems = new Map();
    for (const [name, field, isRequired] of FIELDS) validate(field, values.value[name], isRequired, name, found);
    return found;
  };
  const save = (): Promise<WebhookWithSecret> => {
    const body = { url: String(values.value.url), events: (values.value.events ?? []) as string[], description: String(values.value.description ?? "") };
    return webhook ? api.changeWebhook(webhook.id, body) : api.addWebhook(body);
  };
  return (
    <Editor
      title={webhook ? words.editing.webhooks : words.add.webhooks}
      isNew={!webhook}
      check={check}
      save={save}
      remove={webhook ? () => api.removeWebhook(webhook.id) : undefined}
      side={
        <section>
          <h2>{words.receives}</h2>
          <p class="quiet">{words.receivesHelp}</p>
        </section>
      }
    >
      {({ problems, recheck }) =>
        FIELDS.map(([name, field, isRequired]) => (
          <FieldView
            key={name}
            field={field}
            name={name}
            path={name}
            value={values.value[name]}
            problems={problems}
            isRequired={isRequired}
            idPrefix="webhook"
            onChange={(next) => {
              values.value = { ...values.value, [name]: next };
              recheck();
            }}
          />
        ))
      }
    </Editor>
  );
}
