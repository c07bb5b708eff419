/* What a run says while it works: messages, tools and questions in place; for a graph without messages, its steps. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { api } from "../../api/client";
import type { JsonMap, Run } from "../../api/types";
import { findMessages } from "../../diff/messages";
import { formatClock, formatDuration, formatValue, shortId } from "../../format";
import { Button, Empty } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { hrefOf } from "../../router";
import { now } from "../../state/clock";
import { attempt } from "../../state/toast";
import { isAnswerable } from "../../state/waits";
import { texts } from "../../texts";
import { Conversation } from "../run/inspector/Conversation";
import { ValueView } from "../run/inspector/ValueView";
import { RunStore } from "../run/store";
import { glyphOf, sentenceOf } from "../runs/sentence";
import { titleOf } from "../inbox/questions";

const words = texts.start;

export function Playground({ runId, onSend }: { runId: string | null; onSend: (text: string, run: Run) => void }) {
  if (!runId) {
    return (
      <section class="chat">
        <Empty title={words.running}>
          <p>{words.hint}</p>
        </Empty>
      </section>
    );
  }
  return <Watch runId={runId} onSend={onSend} />;
}

function Watch({ runId, onSend }: { runId: string; onSend: (text: string, run: Run) => void }) {
  const store = useMemo(() => new RunStore(runId), [runId]);
  useEffect(() => {
    store.open();
    return () => store.close();
  }, [store]);
  const box = useRef<HTMLDivElement>(null);
  const visits = store.visits.value;
  const run = store.run.value;
  const [loaded] = useLoad((signal) => (run ? api.threadState(run.threadId, undefined, signal) : Promise.resolve(null)), [run?.id, visits.length, run?.status]);
  const state = useSignal<JsonMap | null>(null);
  useEffect(() => {
    if (loaded.value.data) state.value = loaded.value.data.values;
  }, [loaded.value.data]);
  useEffect(() => {
    const thread = box.current;
    if (thread && thread.scrollHeight - thread.scrollTop - thread.clientHeight < 160) thread.scrollTop = thread.scrollHeight;
  });
  if (!run) return <section class="chat" />;
  const messages = findMessages(state.value ?? run.output ?? run.input);
  const live = Object.values(store.live.value).join("");
  const hasEnded = store.hasEnded.value;
  const { lead, rest } = sentenceOf(run);
  return (
    <section class="chat">
      <header class="chathead row">
        <Glyph status={glyphOf(run)} />
        <b>{run.graph}</b>
        <span class="mid cut grow">
          {lead} {rest}
        </span>
        {typeof run.metadata.rerunOf === "string" && (
          <a class="btn small" href={hrefOf(["runs", "compare"], { a: run.metadata.rerunOf, b: run.id })}>
            {words.compare(shortId(run.metadata.rerunOf))}
          </a>
        )}
        <a class="btn small" href={hrefOf(["runs", run.id])}>
          {words.openRun}
        </a>
        {!hasEnded && (
          <Button look="small" onClick={() => void attempt(() => api.cancel(run.id))}>
            {words.stop}
          </Button>
        )}
      </header>
      <div class="thread" ref={box}>
        {messages.length ? <Conversation messages={messages} live={hasEnded ? "" : newest(live, messages)} none="" /> : <Steps store={store} />}
        {store.waits.value.filter(isAnswerable).map((wait) => (
          <div class="question-in row" key={wait.id}>
            <Glyph status={wait.kind === "event" ? "timer" : "waiting"} />
            <span class="grow">{titleOf(wait)}</span>
            <a class="btn main small" href={hrefOf(["inbox", wait.id])}>
              {texts.run.actions.answer(1)}
            </a>
          </div>
        ))}
        {hasEnded && !messages.length && run.output !== null && <ValueView title={texts.run.inspector.tabs.output} value={run.output} none="" />}
        {run.status === "failed" && <p class="s-failed">{run.error?.message}</p>}
      </div>
      {messages.length > 0 && hasEnded && <Compose onSend={(text) => onSend(text, run)} />}
    </section>
  );
}

/** Text that streams, without what is in the messages already. */
function newest(live: string, messages: { text: string }[]): string {
  const last = messages.findLast((message) => message.text && live.includes(message.text));
  return last ? live.slice(live.lastIndexOf(last.text) + last.text.length) : live;
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

function Compose({ onSend }: { onSend: (text: string) => void }) {
  const text = useSignal("");
  const send = (): void => {
    if (!text.value.trim()) return;
    onSend(text.value.trim());
    text.value = "";
  };
  return (
    <div class="compose">
      <div class="box row">
        <textarea
          rows={2}
          aria-label={words.write}
          placeholder={words.write}
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey) return;
            event.preventDefault();
            send();
          }}
        />
        <Button onClick={send} keys="Enter">
          {words.send}
        </Button>
      </div>
    </div>
  );
}
