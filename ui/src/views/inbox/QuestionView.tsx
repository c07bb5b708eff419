/* One open question: its form, what the run knows, and what comes next. */

import { useSignal } from "@preact/signals";
import { api } from "../../api/client";
import type { Json, JsonMap, Wait } from "../../api/types";
import { Parts } from "../../diff/DiffView";
import { countChanged, diffWords } from "../../diff/words";
import { Form } from "../../form/Form";
import { JsonEditor } from "../../form/JsonEditor";
import { defaultOf } from "../../form/schema";
import { type Problems, validate } from "../../form/validate";
import { formatAgo, formatCost, formatDuration, formatValue, shortId } from "../../format";
import { useKeys } from "../../keys";
import { Button, Segments, SureButton } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { hrefOf } from "../../router";
import { now } from "../../state/clock";
import { isOffline } from "../../state/connection";
import { may } from "../../state/session";
import { attempt } from "../../state/toast";
import { loadWaits } from "../../state/waits";
import { texts } from "../../texts";
import { ageOf } from "../runs/sentence";
import { contentOf, detailsOf, fieldOf, kindOf, titleOf } from "./questions";

const words = texts.inbox;
const NAME = "statewright.name";

export function QuestionView({ wait, onDone }: { wait: Wait; onDone: () => void }) {
  const kind = kindOf(wait);
  const field = fieldOf(wait);
  const content = contentOf(wait);
  const value = useSignal<Json | undefined>(kind === "approval" ? content : (defaultOf(field) ?? (field.kind === "group" || kind === "event" ? {} : undefined)));
  const mode = useSignal<"form" | "json">("form");
  const problems = useSignal<Problems>(new Map());
  const broken = useSignal<string | null>(null);
  const by = useSignal(localStorage.getItem(NAME) ?? "");
  const isBusy = useSignal(false);
  const mayAnswer = kind === "approval" ? may("approvals:decide") : may("runs:write");
  const isEdited = kind === "approval" && JSON.stringify(value.value) !== JSON.stringify(content);

  const perform = async (call: () => Promise<unknown>): Promise<void> => {
    if (isBusy.value) return;
    isBusy.value = true;
    const isDone = await attempt(call, words.sent);
    await loadWaits().catch(() => undefined);
    isBusy.value = false;
    if (isDone) onDone();
  };
  const decide = (decision: "approved" | "rejected" | "edited"): void => {
    const name = by.value.trim();
    if (name) localStorage.setItem(NAME, name);
    const body = { decision, ...(decision === "edited" ? { editedContent: value.value ?? null } : {}), ...(name ? { decidedBy: name } : {}) };
    void perform(() => api.decide(wait.id, body));
  };
  const send = (): void => {
    if (!mayAnswer || isOffline.value) return;
    if (broken.value) return;
    if (kind === "approval") return decide(isEdited ? "edited" : "approved");
    const found = validate(field, value.value);
    problems.value = found;
    const [first] = found.keys();
    if (first !== undefined) {
      document.querySelector<HTMLElement>(`.decide [data-path="${CSS.escape(first)}"] :is(input, textarea, select, button)`)?.focus();
      return;
    }
    const answer = value.value ?? null;
    void perform(() => (wait.kind === "event" ? api.signal(wait.workflowRunId, wait.signalType ?? "", answer) : api.answer(wait.workflowRunId, { [wait.id]: answer })));
  };
  useKeys({ "Ctrl+Enter": send, d: () => document.getElementById("decline")?.click() });
  const change = (next: Json | undefined): void => {
    value.value = next;
    if (problems.value.size) problems.value = validate(field, next);
  };
  const [firstWrong] = problems.value.keys();
  return (
    <>
      <div class="decide">
        <div class="form">
          <div>
            <div class="row">
              <a class="btn icon bare small only-narrow" href={hrefOf(["inbox"])} aria-label={words.back}>
                ←
              </a>
              <Glyph status={kind === "event" ? "timer" : "waiting"} />
              <span class="grow cut quiet">{`${wait.stepName} · ${formatAgo(wait.createdAt, now.value)}`}</span>
              <Segments
                label={words.form}
                chosen={mode.value}
                onChoose={(key) => (mode.value = key)}
                choices={[
                  { key: "form", label: words.form },
                  { key: "json", label: words.json },
                ]}
              />
            </div>
            <h2 class="question">{titleOf(wait)}</h2>
          </div>
          {!mayAnswer && <p class="quiet">{words.mayNot}</p>}
          {mode.value === "json" ? (
            <div class="field">
              <label for="answer-json">{words.json}</label>
              <JsonEditor
                id="answer-json"
                value={value.value}
                onChange={(next, problem) => {
                  broken.value = problem;
                  if (!problem) change(next);
                }}
              />
            </div>
          ) : kind === "approval" ? (
            <Content label={String((wait.value as JsonMap).contentKey ?? words.content)} original={content} value={value.value ?? null} onChange={change} />
          ) : (
            <Form field={field} value={value.value} onChange={change} problems={problems.value} idPrefix="answer" />
          )}
          {kind === "approval" && (
            <div class="field half">
              <label for="decided-by">
                {words.name}
                <small>{texts.form.optional}</small>
              </label>
              <input class="input" id="decided-by" value={by.value} autocomplete="name" onInput={(event) => (by.value = event.currentTarget.value)} />
              <span class="help">{words.nameHelp}</span>
            </div>
          )}
        </div>
        <Side wait={wait} isApproval={kind === "approval"} />
      </div>
      <footer class="foot">
        <span class={`grow ${problems.value.size ? "s-failed" : "quiet"}`} role="status">
          {firstWrong !== undefined ? words.wrong(problems.value.size, labelOf(field, firstWrong)) : (broken.value ?? "")}
        </span>
        {kind === "approval" && (
          <SureButton id="decline" look="tall" sure={words.sure} keys="D" onSure={() => decide("rejected")} isDisabled={!mayAnswer || isOffline.value}>
            <span class="s-failed">{words.reject}</span>
          </SureButton>
        )}
        <Button look="main tall" keys="Ctrl Enter" onClick={send} isDisabled={!mayAnswer || isOffline.value || isBusy.value}>
          {kind === "approval" ? (isEdited ? words.approveChanged : words.approve) : kind === "event" ? words.sendEvent : words.answer}
        </Button>
      </footer>
    </>
  );
}

function labelOf(field: ReturnType<typeof fieldOf>, path: string): string {
  const [name = ""] = path.split(".");
  return field.fields[name]?.label ?? (name || field.label);
}

/** The content of an approval: edited as text, with the changes marked on request. */
function Content({ label, original, value, onChange }: { label: string; original: Json; value: Json; onChange: (value: Json | undefined) => void }) {
  const isMarked = useSignal(false);
  if (typeof original !== "string") {
    return (
      <div class="field">
        <label for="content">{label}</label>
        <JsonEditor id="content" value={value} onChange={(next, problem) => !problem && onChange(next ?? null)} />
      </div>
    );
  }
  const text = typeof value === "string" ? value : formatValue(value, 100_000);
  const parts = diffWords(original, text);
  const changed = countChanged(parts);
  return (
    <div class="field">
      <label for="content">
        {label}
        {changed > 0 && (
          <small>
            {words.changed(changed)} ·{" "}
            <button type="button" class="link" onClick={() => (isMarked.value = !isMarked.value)}>
              {isMarked.value ? words.hideChanges : words.showChanges}
            </button>
          </small>
        )}
      </label>
      {isMarked.value ? (
        <div class="input prose shown">
          <Parts parts={parts} />
        </div>
      ) : (
        <textarea class="input prose" id="content" rows={Math.min(20, Math.max(6, text.split("\n").length + 2))} value={text} onInput={(event) => onChange(event.currentTarget.value)} />
      )}
    </div>
  );
}

function Side({ wait, isApproval }: { wait: Wait; isApproval: boolean }) {
  const [loaded] = useLoad(async (signal) => {
    const run = await api.run(wait.workflowRunId, signal);
    const [state, graph] = await Promise.all([
      may("threads:read") ? api.threadState(run.threadId, undefined, signal).catch(() => null) : null,
      may("definitions:read") ? api.graph(run.graph, signal).catch(() => null) : null,
    ]);
    return { run, state, graph };
  }, [wait.id]);
  const { data } = loaded.value;
  const known = { ...detailsOf(wait), ...shortValues(data?.state?.values ?? {}, wait) };
  const next = data?.graph?.edges.find((edge) => edge.source === wait.stepName && edge.target !== "__end__")?.target ?? "";
  const age = data ? ageOf(data.run, now.value) : null;
  return (
    <aside class="side">
      {Object.keys(known).length > 0 && (
        <section>
          <h2>{words.knows}</h2>
          <dl class="kv">
            {Object.entries(known)
              .slice(0, 10)
              .map(([name, value]) => [
                <dt key={name} class="cut" title={name}>
                  {name}
                </dt>,
                <dd key={`${name} value`}>{formatValue(value, 90)}</dd>,
              ])}
          </dl>
        </section>
      )}
      <section>
        <h2>{words.next}</h2>
        <dl class="next">
          {isApproval && <dt>{words.approve}</dt>}
          {isApproval && <dd>{words.nextApprove(next)}</dd>}
          {isApproval && <dt>{words.reject}</dt>}
          {isApproval && <dd>{words.nextReject}</dd>}
          {!isApproval && next && <dt>{words.answered}</dt>}
          {!isApproval && next && <dd>{words.nextAnswer(next)}</dd>}
          <dt>{words.nothing}</dt>
          <dd>{wait.dueAt ? words.nextExpires(formatAgo(wait.dueAt, now.value)) : words.nextNothing}</dd>
        </dl>
      </section>
      <section>
        <h2>{words.run}</h2>
        <p>
          <a class="mono" href={hrefOf(["runs", wait.workflowRunId], { step: wait.stepName })}>
            {shortId(wait.workflowRunId)}
          </a>{" "}
          {data?.run.graph}
        </p>
        {data && age !== null && <p class="quiet">{words.soFar(formatCost(data.run.totalCostUsd), formatDuration(age))}</p>}
      </section>
    </aside>
  );
}

/** The values of the state that can be read at a glance; the content that is asked about stands in the form already. */
function shortValues(values: JsonMap, wait: Wait): JsonMap {
  const asked = JSON.stringify(contentOf(wait));
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null && typeof value !== "object" && String(value).length <= 90 && JSON.stringify(value) !== asked));
}
