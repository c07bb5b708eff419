/* The form of an answer: the content of an approval as text, the question about a call of a tool, or fields by a schema. */

import { useSignal } from "@preact/signals";
import type { Json, JsonMap, Wait } from "../../api/types";
import { Parts } from "../../diff/DiffView";
import { countChanged, diffWords } from "../../diff/words";
import { FieldFrame } from "../../form/Fields";
import { listProblems } from "../../form/problems";
import { Form } from "../../form/Form";
import { JsonEditor } from "../../form/JsonEditor";
import { formatValue } from "../../format";
import { texts } from "../../texts";
import type { Answering } from "./answering";
import { toolCallOf } from "./questions";

const words = texts.inbox;

export function AnswerForm({ wait, answering, isJson }: { wait: Wait; answering: Answering; isJson: boolean }) {
  const { kind, field, content, value, problems, change } = answering;
  const id = `answer-${wait.id.slice(0, 8)}`;
  if (isJson) {
    return (
      <FieldFrame id={`${id}-json`} path="" label={words.json} problem={listProblems(problems.value)}>
        <JsonEditor id={`${id}-json`} value={value.value} onChange={(next, problem) => !problem && change(next)} />
      </FieldFrame>
    );
  }
  if (kind === "tool") return <ToolArguments wait={wait} />;
  if (kind === "approval") return <Content id={id} label={String((wait.value as JsonMap).contentKey ?? words.content)} original={content} value={value.value ?? null} onChange={change} />;
  return <Form field={field} value={value.value} onChange={change} problems={problems.value} idPrefix={id} />;
}

/** What a tool would be called with. */
function ToolArguments({ wait }: { wait: Wait }) {
  const call = toolCallOf(wait);
  if (!call) return null;
  return (
    <dl class="kv args">
      {Object.entries(call.arguments).map(([name, value]) => [
        <dt key={name} class="cut" title={name}>
          {name}
        </dt>,
        <dd key={`${name} value`}>
          <pre>{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre>
        </dd>,
      ])}
    </dl>
  );
}

/** The content of an approval: edited as text, with the changes marked on request. */
function Content({ id, label, original, value, onChange }: { id: string; label: string; original: Json; value: Json; onChange: (value: Json | undefined) => void }) {
  const isMarked = useSignal(false);
  if (typeof original !== "string") {
    return (
      <FieldFrame id={id} path="" label={label}>
        <JsonEditor id={id} value={value} onChange={(next, problem) => !problem && onChange(next ?? null)} />
      </FieldFrame>
    );
  }
  const text = typeof value === "string" ? value : formatValue(value, 100_000);
  const parts = diffWords(original, text);
  const changed = countChanged(parts);
  return (
    <div class="field">
      <div class="label">
        <label for={id}>{label}</label>
        {changed > 0 && (
          <small>
            {words.changed(changed)} ·{" "}
            <button type="button" class="link" onClick={() => (isMarked.value = !isMarked.value)}>
              {isMarked.value ? words.hideChanges : words.showChanges}
            </button>
          </small>
        )}
      </div>
      {isMarked.value ? (
        <div class="input prose shown" id={id}>
          <Parts parts={parts} />
        </div>
      ) : (
        <textarea class="input prose" id={id} rows={Math.min(20, Math.max(6, text.split("\n").length + 2))} value={text} onInput={(event) => onChange(event.currentTarget.value)} />
      )}
    </div>
  );
}
