/* One open question: its form, what the run knows, and what comes next. */

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { api } from "../../api/client";
import type { JsonMap, Wait } from "../../api/types";
import { nameOfFirst } from "../../form/problems";
import { formatAgo, formatCost, formatDuration, formatValue, shortId } from "../../format";
import { useKeys } from "../../keys";
import { Button, Segments, SureButton } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { hrefOf } from "../../router";
import { now } from "../../state/clock";
import { may } from "../../state/session";
import { texts } from "../../texts";
import { ageOf } from "../runs/sentence";
import { AnswerForm } from "./AnswerForm";
import { useAnswering } from "./answering";
import { contentOf, detailsOf, titleOf } from "./questions";

const words = texts.inbox;

export function QuestionView({ wait, onDone }: { wait: Wait; onDone: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  const mode = useSignal<"form" | "json">("form");
  const answering = useAnswering(wait, () => box.current, onDone);
  const { kind, problems, by, isDisabled, isEdited, mayAnswer, send, sendValue, decide } = answering;
  const decline = (): void => (kind === "tool" ? sendValue(false) : decide("rejected"));
  const approve = (): void => (kind === "tool" && mode.value === "form" ? sendValue(true) : send());
  useKeys({ "Ctrl+Enter": approve, d: () => document.getElementById("decline")?.click(), e: () => (mode.value = mode.value === "form" ? "json" : "form") });
  const isApproval = kind === "approval" || kind === "tool";
  return (
    <>
      <div class="decide" ref={box}>
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
          <AnswerForm wait={wait} answering={answering} isJson={mode.value === "json"} />
          {kind === "approval" && (
            <div class="field half">
              <label for="decided-by">
                {words.name}
                <small>{texts.form.optional}</small>
              </label>
              <input class="input" id="decided-by" value={by.value} autocomplete="name" aria-describedby="decided-by-help" onInput={(event) => (by.value = event.currentTarget.value)} />
              <span class="help" id="decided-by-help">
                {words.nameHelp}
              </span>
            </div>
          )}
        </div>
        <Side wait={wait} isApproval={isApproval} />
      </div>
      <footer class="foot">
        <span class="grow s-failed" role="status">
          {problems.value.size > 0 && texts.form.toCorrect(problems.value.size, nameOfFirst(problems.value, box.current, answering.field))}
        </span>
        {isApproval && (
          <SureButton id="decline" look="tall" sure={words.sure} keys="D" onSure={decline} isDisabled={isDisabled}>
            <span class="s-failed">{kind === "tool" ? words.refuse : words.reject}</span>
          </SureButton>
        )}
        <Button look="main tall" keys="Ctrl Enter" onClick={approve} isDisabled={isDisabled}>
          {kind === "approval" ? (isEdited ? words.approveChanged : words.approve) : kind === "tool" && mode.value === "form" ? words.allow : kind === "event" ? words.sendEvent : words.answer}
        </Button>
      </footer>
    </>
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
  const due = wait.dueAt ? (Date.parse(wait.dueAt) - now.value) / 1000 : null;
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
          <dd>{due === null ? words.nextNothing : due > 0 ? words.nextExpires(formatDuration(due)) : words.nextExpired}</dd>
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
        {data && age !== null && <p class="quiet">{words.soFar(data.run.totalCostUsd ? formatCost(data.run.totalCostUsd) : "", formatDuration(age))}</p>}
      </section>
    </aside>
  );
}

/** The values of the state that can be read at a glance; the content that is asked about stands in the form already. */
function shortValues(values: JsonMap, wait: Wait): JsonMap {
  const asked = JSON.stringify(contentOf(wait));
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null && typeof value !== "object" && String(value).length <= 90 && JSON.stringify(value) !== asked));
}
