/* A trigger: the event that it is for, and the graph that it starts. */

import { useSignal } from "@preact/signals";
import { api } from "../../api/client";
import type { Json, JsonMap, Trigger } from "../../api/types";
import { FieldFrame, FieldView } from "../../form/Fields";
import { type Problems, validate } from "../../form/validate";
import { texts } from "../../texts";
import { Editor } from "./Editor";
import { EVENT, MATCH } from "./fields";
import { GraphField } from "./GraphField";

const words = texts.schedules;

export function TriggerForm({ trigger }: { trigger: Trigger | null }) {
  const event = useSignal(trigger?.event ?? "");
  const graph = useSignal(trigger?.graph ?? "");
  const match = useSignal<Json | undefined>(trigger?.match ?? {});
  const check = (): Problems => {
    const found: Problems = new Map();
    validate(EVENT, event.value, true, "event", found);
    if (!graph.value) found.set("graph", texts.form.needed);
    return validate(MATCH, match.value, true, "match", found);
  };
  const save = (): Promise<Trigger> => {
    const values = (match.value ?? {}) as JsonMap;
    return trigger ? api.changeTrigger(trigger.id, { match: values }) : api.addTrigger({ event: event.value, graph: graph.value, match: values });
  };
  return (
    <Editor
      title={trigger ? words.editing.triggers : words.add.triggers}
      isNew={!trigger}
      check={check}
      save={save}
      remove={trigger ? () => api.removeTrigger(trigger.id) : undefined}
      side={
        <section>
          <h2>{words.whatStarts}</h2>
          <p class="quiet">{words.startsHelp}</p>
        </section>
      }
    >
      {({ problems, recheck }) => (
        <>
          {trigger ? (
            <FieldFrame id="trigger-event" path="event" label={words.event}>
              <input class="input mono" id="trigger-event" value={event.value} disabled />
            </FieldFrame>
          ) : (
            <FieldView
              field={EVENT}
              name="event"
              path="event"
              value={event.value}
              problems={problems}
              isRequired
              idPrefix="trigger"
              onChange={(next) => {
                event.value = String(next ?? "");
                recheck();
              }}
            />
          )}
          <GraphField
            graph={graph.value}
            isFixed={trigger !== null}
            help={words.graphHelp}
            problem={problems.get("graph")}
            onChange={(next) => {
              graph.value = next;
              recheck();
            }}
          />
          <FieldView
            field={MATCH}
            name="match"
            path="match"
            value={match.value}
            problems={problems}
            isRequired
            idPrefix="trigger"
            onChange={(next) => {
              match.value = next;
              recheck();
            }}
          />
        </>
      )}
    </Editor>
  );
}
