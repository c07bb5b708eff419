/* The head of a run: what it is, what it says, and the one next step that it needs now. */

import { useSignal } from "@preact/signals";
import { api } from "../../api/client";
import type { Run } from "../../api/types";
import { formatAgo, formatClock, formatCost, formatCount, formatDuration, formatTime, shortId } from "../../format";
import { useKeys } from "../../keys";
import { Button, CopyButton, SureButton } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { later } from "../../parts/later";
import { hrefOf, open } from "../../router";
import { now } from "../../state/clock";
import { isOffline } from "../../state/connection";
import { may } from "../../state/session";
import { attempt } from "../../state/toast";
import { isAnswerable } from "../../state/waits";
import { texts } from "../../texts";
import { ageOf, glyphOf, waitWords } from "../runs/sentence";
import type { RunScene } from "./scene";
import type { RunStore } from "./store";
import { attemptCount } from "./model";

const words = texts.run;
const More = later(async () => (await import("./tabs")).More);

export function Header({ store, scene, run }: { store: RunStore; scene: RunScene; run: Run }) {
  const glyph = glyphOf(run);
  return (
    <>
      <nav class="crumbs" aria-label={words.where}>
        <a href={hrefOf(["runs"])}>{texts.nav.runs}</a>/<a href={hrefOf(["runs"], { graph: run.graph })}>{run.graph}</a>/<span class="mono cut">{run.id}</span>
        <CopyButton text={run.id} label={words.copyId} />
      </nav>
      <div class="title">
        <Glyph status={glyph} isBig />
        <h1 class="cut">{run.graph}</h1>
        <span class="mid cut" aria-live="polite">
          {saysOf(store, scene, run)}
        </span>
        <span class="grow only-wide" />
        <Actions store={store} run={run} />
      </div>
      <Facts store={store} scene={scene} run={run} />
    </>
  );
}

function saysOf(store: RunStore, scene: RunScene, run: Run): string {
  const says = words.says;
  const waits = store.waits.value;
  switch (run.status) {
    case "failed": {
      const visit = scene.visits.findLast((each) => each.name === run.error?.step && each.status === "failed");
      const attempts = visit?.tasks.length === 1 && visit.tasks[0] ? attemptCount(visit.tasks[0]) : 1;
      return run.error?.step ? says.failedAt(run.error.step, attempts) : (run.error?.message ?? says.failed);
    }
    case "waiting": {
      const questions = waits.filter((wait) => wait.kind === "question").length;
      const [wait] = waits;
      return [says.waiting, questions ? says.asks(questions) : wait ? says.waitsFor(waitWords(wait)) : ""].filter(Boolean).join(" · ");
    }
    case "running": {
      const fan = scene.visits.findLast((visit) => visit.tasks.length > 1 && visit.endedAt === null);
      const retrying = scene.visits.reduce((sum, visit) => sum + visit.counts.retrying, 0);
      const parts = [says.running, fan ? says.progress(fan.counts.done, fan.tasks.length, fan.name) : "", waits.length ? says.asks(waits.length) : "", retrying ? says.retries(retrying) : ""];
      return parts.filter(Boolean).join(" · ");
    }
    default:
      return run.error?.message ? `${says[run.status]} · ${run.error.message}` : says[run.status];
  }
}

function Actions({ store, run }: { store: RunStore; run: Run }) {
  const isMore = useSignal(false);
  const questions = store.waits.value.filter(isAnswerable);
  const hasEnded = ["completed", "failed", "cancelled"].includes(run.status);
  const mayWrite = may("runs:write") && !isOffline.value;
  const perform = (call: (id: string) => Promise<unknown>, done: string): void => {
    void attempt(async () => {
      await call(run.id);
      store.refreshSoon(true);
    }, done);
  };
  const answer = (): void => {
    const [first] = questions;
    if (first) open(hrefOf(["inbox", first.id]));
  };
  const retry = (): void => perform(api.retry, words.done.retry);
  useKeys({ a: answer, r: () => run.status === "failed" && mayWrite && retry() });
  const actions = words.actions;
  return (
    <span class="row acts">
      {questions.length > 0 && (
        <Button look="main" keys="A" onClick={answer}>
          {actions.answer(questions.length)}
        </Button>
      )}
      {may("runs:write") && (
        <>
          {run.status === "failed" && (
            <Button look="main" icon="retry" keys="R" onClick={retry} isDisabled={!mayWrite}>
              {run.error?.step ? actions.retry(run.error.step) : actions.retryRun}
            </Button>
          )}
          {run.status === "paused" && (
            <Button look="main" icon="play" onClick={() => perform(api.resume, words.done.resume)} isDisabled={!mayWrite}>
              {actions.resume}
            </Button>
          )}
          {(run.status === "running" || run.status === "pending") && (
            <Button onClick={() => perform(api.pause, words.done.pause)} isDisabled={!mayWrite}>
              {actions.pause}
            </Button>
          )}
          {!hasEnded && (
            <SureButton sure={actions.sure} onSure={() => perform(api.cancel, words.done.cancel)} isDisabled={!mayWrite}>
              {actions.cancel}
            </SureButton>
          )}
          {hasEnded && (
            <a class="btn" href={hrefOf(["start", run.graph], { input: run.id })}>
              {actions.again}
            </a>
          )}
        </>
      )}
      <span class="has-menu">
        <Button icon="more" label={texts.more} onClick={() => (isMore.value = !isMore.value)} />
        {isMore.value && <More store={store} run={run} onClose={() => (isMore.value = false)} />}
      </span>
    </span>
  );
}

function Facts({ store, scene, run }: { store: RunStore; scene: RunScene; run: Run }) {
  const facts = words.facts;
  const isLive = ["running", "waiting", "paused"].includes(run.status);
  const age = ageOf(run, isLive ? now.value : 0);
  const tokens = store.calls.value.reduce((sum, call) => sum + call.inputTokens + call.outputTokens, 0);
  const superstep = scene.visits[scene.visits.length - 1]?.superstep;
  return (
    <dl class="facts">
      <Fact name={facts.started}>
        {formatTime(run.startedAt ?? run.createdAt)}, {formatAgo(run.startedAt ?? run.createdAt, now.value)}
      </Fact>
      <Fact name={facts.duration}>{age === null ? texts.none : isLive ? formatClock(age) : formatDuration(age)}</Fact>
      <Fact name={facts.superstep}>{superstep ?? texts.none}</Fact>
      <Fact name={facts.cost}>{formatCost(run.totalCostUsd)}</Fact>
      {tokens > 0 && <Fact name={facts.tokens}>{formatCount(tokens)}</Fact>}
      <Fact name={facts.thread}>
        <a class="mono" href={hrefOf(["threads", run.threadId])}>
          {shortId(run.threadId)}
        </a>
      </Fact>
      {scene.graph && (
        <Fact name={facts.definition}>
          <span>
            {texts.start.kinds[scene.graph.kind] ?? scene.graph.kind} <span class="mono quiet">{scene.graph.version.slice(0, 8)}</span>
          </span>
        </Fact>
      )}
      <Fact name={facts.source}>{run.source}</Fact>
      {run.workerHost && <Fact name={facts.worker}>{run.workerHost}</Fact>}
      {run.queue !== "default" && <Fact name={facts.queue}>{run.queue}</Fact>}
      {typeof run.metadata.rerunOf === "string" && (
        <Fact name={facts.again}>
          <a href={hrefOf(["runs", "compare"], { a: run.metadata.rerunOf, b: run.id })} title={texts.compare.with(shortId(run.metadata.rerunOf))}>
            {texts.compare.compareWith} <span class="mono">{shortId(run.metadata.rerunOf)}</span>
          </a>
        </Fact>
      )}
      {typeof run.metadata.forkOf === "string" && (
        <Fact name={facts.fork}>
          <a href={hrefOf(["runs", "compare"], { a: run.metadata.forkOf, b: run.id })} title={texts.compare.with(shortId(run.metadata.forkOf))}>
            {texts.compare.compareWith} <span class="mono">{shortId(run.metadata.forkOf)}</span>
          </a>
        </Fact>
      )}
      {run.parentId && (
        <Fact name={facts.parent}>
          <a class="mono" href={hrefOf(["runs", run.parentId])}>
            {shortId(run.parentId)}
          </a>
        </Fact>
      )}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
