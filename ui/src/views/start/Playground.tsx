/* What a run says while it works: messages, tools and questions in place; for a graph without messages, its steps. */

import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { api } from "../../api/client";
import type { JsonMap, Run } from "../../api/types";
import { formatClock, formatCost, formatCount, formatDuration, formatValue, shortId } from "../../format";
import { Button, Empty } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { hrefOf } from "../../router";
import { now } from "../../state/clock";
import { isOffline } from "../../state/connection";
import { hasProblems } from "../../state/reload";
import { may } from "../../state/session";
import { attempt } from "../../state/toast";
import { isAnswerable } from "../../state/waits";
import { texts } from "../../texts";
import { ProblemFiles } from "../problems/ProblemFiles";
import { Conversation } from "../run/inspector/Conversation";
import { ValueView } from "../run/inspector/ValueView";
import { RunStore } from "../run/store";
import { glyphOf, sentenceOf } from "../runs/sentence";
import { QuestionInPlace } from "./QuestionInPlace";
import { askedIn, talkOf } from "./talk";

const words = texts.start;
const NEAR_END = 160; // pixels from the end within which the text is followed

export function Playground({ runId, onSend }: { runId: string | null; onSend: (text: string, run: Run) => void }) {
  if (!runId) {
    return (
      <section class="chat" aria-label={words.playground}>
        {hasProblems.value ? (
          <ProblemFiles />
        ) : (
          <Empty title={words.running}>
            <p>{words.hint}</p>
          </Empty>
        )}
      </section>
    );
  }
  return <Watch key={runId} runId={runId} onSend={onSend} />;
}

/** The state that was read last, so that the next run on a thread begins with what was said. */
const lastState = signal<{ threadId: string; values: JsonMap; runs: Run[] } | null>(null);

function Watch({ runId, onSend }: { runId: string; onSend: (text: string, run: Run) => void }) {
  const store = useMemo(() => new RunStore(runId), [runId]);
  useEffect(() => {
    store.open();
    return () => store.close();
  }, [store]);
  const run = store.run.value;
  const visits = store.visits.value;
  const [loaded] = useLoad((signal) => (run ? loadThread(run, signal) : Promise.resolve(null)), [run?.id, visits.length, run?.status]);
  useEffect(() => {
    if (loaded.value.data) lastState.value = loaded.value.data;
  }, [loaded.value.data]);
  if (!run) return <section class="chat" aria-label={words.playground} />;
  const kept = lastState.value?.threadId === run.threadId ? lastState.value : null;
  const runs = kept?.runs.some((each) => each.id === run.id) ? kept.runs : [...(kept?.runs ?? []), run];
  const hasEnded = store.hasEnded.value;
  const called = store.events.value.filter((event) => event.eventType === "TOOL_CALLED").map(({ payload }) => ({ id: String(payload.call), tool: String(payload.tool), agent: String(payload.agent ?? "") }));
  const messages = talkOf(kept?.values ?? null, runs, store.messages.value, called);
  const ended = new Set(called.map((call) => call.id));
  const isTalk = messages.length > 0 && (askedIn(run).length > 0 || messages.some((message) => message.role === "assistant"));
  const questions = store.waits.value.filter(isAnswerable);
  const last = messages[messages.length - 1];
  const isGrowing = !hasEnded && !questions.length && last?.role === "assistant" && last.text !== "" && !last.calls.length;
  return (
    <section class="chat" aria-label={words.playground}>
      <Head store={store} run={run} hasEnded={hasEnded} />
      <Thread isAtEnd={`${messages.length} ${last?.text.length} ${questions.length}`}>
        {isTalk ? <Conversation messages={messages} none="" ended={ended} isGrowing={isGrowing} /> : <Steps store={store} />}
        {!hasEnded && isTalk && !isGrowing && !questions.length && run.status !== "paused" && (
          <p class="quiet row" aria-hidden>
            <Glyph status="running" isSilent /> {words.works}
          </p>
        )}
        {questions.map((wait) => (
          <QuestionInPlace key={wait.id} wait={wait} onDone={() => store.refreshSoon(true)} />
        ))}
        {hasEnded && !isTalk && run.output !== null && <ValueView title={texts.run.inspector.tabs.output} value={run.output} none="" />}
        {run.status === "failed" && (
          <p class="s-failed" role="alert">
            {run.error?.message}
          </p>
        )}
        {run.status === "cancelled" && <p class="quiet">{words.stopped}</p>}
      </Thread>
      {isTalk && <Compose run={run} isBusy={!hasEnded} onSend={(text) => onSend(text, run)} />}
    </section>
  );
}

async function loadThread(run: Run, signal: AbortSignal): Promise<{ threadId: string; values: JsonMap; runs: Run[] }> {
  const [state, runs] = await Promise.all([
    may("threads:read") ? api.threadState(run.threadId, undefined, signal).catch(() => null) : null,
    api.runs(new URLSearchParams({ threadId: run.threadId, pageSize: "100" }), signal),
  ]);
  const values = state?.values ?? (run.output && typeof run.output === "object" && !Array.isArray(run.output) ? run.output : {});
  return { threadId: run.threadId, values, runs: runs.items.sort((one, other) => one.createdAt.localeCompare(other.createdAt)) };
}

function Head({ store, run, hasEnded }: { store: RunStore; run: Run; hasEnded: boolean }) {
  const { lead, rest } = sentenceOf(run);
  const tokens = store.calls.value.reduce((sum, call) => sum + call.inputTokens + call.outputTokens, 0);
  const spent = [tokens ? words.tokens(formatCount(tokens)) : "", run.totalCostUsd ? formatCost(run.totalCostUsd) : ""].filter(Boolean).join(" · ");
  return (
    <header class="chathead row">
      <Glyph status={glyphOf(run)} />
      <b>{run.graph}</b>
      <span class="mid cut grow">
        {lead} {rest}
      </span>
      <span class="quiet nowrap only-wide">{spent}</span>
      {typeof run.metadata.rerunOf === "string" && (
        <a class="btn small" href={hrefOf(["runs", "compare"], { a: run.metadata.rerunOf, b: run.id })}>
          {words.compare(shortId(run.metadata.rerunOf))}
        </a>
      )}
      <a class="btn small" href={hrefOf(["runs", run.id])}>
        {words.openRun}
      </a>
      {!hasEnded && may("runs:write") && (
        <Button look="small" isDisabled={isOffline.value} onClick={() => void attempt(() => api.cancel(run.id))}>
          {words.stop}
        </Button>
      )}
    </header>
  );
}

/** The conversation; text that streams scrolls along only if one is at the end. */
function Thread({ isAtEnd, children }: { isAtEnd: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    if (box.current && follows.current) box.current.scrollTop = box.current.scrollHeight;
  }, [isAtEnd]);
  const note = (): void => {
    const thread = box.current;
    if (thread) follows.current = thread.scrollHeight - thread.scrollTop - thread.clientHeight < NEAR_END;
  };
  return (
    <div class="threadbox" ref={box} onScroll={note} tabIndex={0} role="log" aria-label={words.talk}>
      <div class="thread">{children}</div>
    </div>
  );
}

function Steps({ store }: { store: RunStore }) {
  return (
    <div class="diff framed">
      {store.visits.value.map((visit) => (
        <div class="taskline" key={visit.key}>
          <Glyph status={visit.status} />
          <span class="cut">{visit.name}</span>
          <span class="quiet">{visit.tasks.length > 1 ? `${visit.counts.done} / ${visit.tasks.length}` : formatValue(visit.tasks[0]?.step.error?.message ?? "", 60)}</span>
          <span class="d">{visit.endedAt ? formatDuration((visit.endedAt - visit.startedAt) / 1000) : formatClock((now.value - visit.startedAt) / 1000)}</span>
        </div>
      ))}
    </div>
  );
}

function Compose({ run, isBusy, onSend }: { run: Run; isBusy: boolean; onSend: (text: string) => void }) {
  const text = useSignal("");
  const isWanted = useSignal(false); // what is sent while the run works goes out when it is done
  const isDisabled = isOffline.value || !may("runs:write");
  const send = (): void => {
    if (isDisabled || !text.value.trim()) return;
    isWanted.value = isBusy;
    if (isBusy) return;
    onSend(text.value.trim());
    text.value = "";
  };
  useEffect(() => {
    if (!isBusy && isWanted.value) send();
  }, [isBusy]);
  return (
    <div class="compose">
      <div class="box row">
        <textarea
          rows={2}
          aria-label={words.write}
          placeholder={isBusy ? words.busy : words.write}
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            send();
          }}
        />
        <Button onClick={send} keys="Enter" isDisabled={isDisabled}>
          {words.send}
        </Button>
      </div>
      <p class="quiet">
        {isWanted.value && <b role="status">{words.queued} </b>}
        {words.thread}{" "}
        <a class="mono" href={hrefOf(["threads", run.threadId])}>
          {run.threadId}
        </a>
      </p>
    </div>
  );
}
