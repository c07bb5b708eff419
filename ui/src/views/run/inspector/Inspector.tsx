/* The inspector: everything about the chosen step, with what it changed in the state first. */

import { useEffect } from "preact/hooks";
import type { JsonMap, StepStates } from "../../../api/types";
import { diffStates } from "../../../diff/sections";
import { DiffView } from "../../../diff/DiffView";
import { findMessages } from "../../../diff/messages";
import { formatCost, formatDuration, formatTime } from "../../../format";
import { useKeys } from "../../../keys";
import { Button, Empty, SureButton, type TabChoice, Tabs } from "../../../parts/controls";
import { Glyph } from "../../../parts/glyphs";
import { later } from "../../../parts/later";
import { address, choose } from "../../../router";
import { texts } from "../../../texts";
import { goOn, mayGoOn } from "../../threads/go-on";
import { attemptCount, type Visit } from "../model";
import type { RunScene } from "../scene";
import type { RunStore } from "../store";
import { Answer } from "./Answer";
import { LogLines } from "./LogLines";
import { outputOf } from "./states";
import { ValueView } from "./ValueView";

const words = texts.run.inspector;
const Conversation = later(async () => (await import("./tabs")).Conversation);
const ErrorTab = later(async () => (await import("./tabs")).ErrorTab);
const InsideTab = later(async () => (await import("./tabs")).InsideTab);
const TasksTab = later(async () => (await import("./tabs")).TasksTab);
export type InspectorTab = keyof typeof words.tabs;

interface InspectorProps {
  store: RunStore;
  scene: RunScene;
  visit: Visit | null;
  /** The key of the step inside a subgraph that is chosen. */
  innerKey: string | null;
  onChoose: (key: string) => void;
  isWide: boolean;
  onWiden: () => void;
}

export function Inspector({ store, scene, visit, innerKey, onChoose, isWide, onWiden }: InspectorProps) {
  useEffect(() => {
    if (!store.logs.peek()) void store.loadLogs();
  }, [store]);
  useEffect(() => {
    if (visit) void store.loadStates(visit);
  }, [store, visit?.key, visit?.endedAt, scene.visits.length]);
  const move = (by: number): void => {
    const keys = scene.visits.map((each) => each.key);
    const current = keys.indexOf(address.peek().query.get("step") ?? ""); // keys may come faster than this is rendered
    const next = scene.visits[(current < 0 ? keys.indexOf(visit?.key ?? "") : current) + by];
    if (next) onChoose(next.key);
  };
  const tabs = visit ? tabsOf(store, scene, visit) : [];
  const asked = address.value.query.get("tab") as InspectorTab | null;
  const chosen = visit ? chooseTab(visit, tabs, asked, innerKey) : "diff";
  const chooseAt = (index: number) => (): void => {
    const tab = tabs[index];
    if (tab) choose({ tab: tab.key });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    w: onWiden,
    ...Object.fromEntries([0, 1, 2, 3, 4, 5, 6].map((index) => [String(index + 1), chooseAt(index)])),
    "]": () => jump(1),
    "[": () => jump(-1),
  });
  if (!visit) {
    return (
      <section class="pane inspect" id="inspector" aria-label={words.title}>
        <Empty title={words.none} />
      </section>
    );
  }
  const at = scene.visits.findIndex((each) => each.key === visit.key);
  return (
    <section class="pane inspect" id="inspector" aria-label={words.title}>
      <div class="who">
        <div class="row">
          <Glyph status={visit.status} />
          <h2 class="grow cut">{visit.name}</h2>
          <Button look="bare small" icon="left" label={words.earlier} onClick={() => move(-1)} isDisabled={at <= 0} />
          <Button look="bare small" icon="right" label={words.later} onClick={() => move(1)} isDisabled={at >= scene.visits.length - 1} />
          <Button look={`bare small only-wide${isWide ? " on" : ""}`} icon="widen" label={words.widen} onClick={onWiden} />
        </div>
        <div class="row">
          <p class="quiet grow">{factsOf(scene, visit)}</p>
          <GoOn store={store} visit={visit} />
        </div>
      </div>
      <Tabs label={words.title} tabs={tabs} chosen={chosen} onChoose={(key) => choose({ tab: key, ...(innerKey && key !== "inside" ? { step: visit.key } : {}) })} />
      <div class="body" role="tabpanel">
        {scene.run.status === "failed" && scene.run.error && !scene.run.error.step && (
          <div class="banner bad">
            <Glyph status="failed" />
            <span>{scene.run.error.message}</span>
          </div>
        )}
        <Answer store={store} visit={visit} />
        <Content store={store} scene={scene} visit={visit} innerKey={innerKey} onChoose={onChoose} tab={chosen} isWide={isWide} />
      </div>
    </section>
  );
}

/** Start a new run that does this step, and those after it, again. */
function GoOn({ store, visit }: { store: RunStore; visit: Visit }) {
  const run = store.run.value;
  const checkpoint = statesOf(store, visit)?.beforeCheckpointId;
  if (!run || !checkpoint || !mayGoOn()) return null;
  return (
    <SureButton look="small" title={texts.threads.goOnHelp} sure={texts.threads.goOnSure} onSure={() => void goOn(run.threadId, checkpoint, run.id)}>
      {texts.threads.goOn}
    </SureButton>
  );
}

/** Scroll to the change before or after the one at the top. */
function jump(by: number): void {
  const changes = [...document.querySelectorAll<HTMLElement>(".inspect [data-change]")];
  const top = document.querySelector(".inspect .body")?.getBoundingClientRect().top ?? 0;
  const at = changes.findIndex((change) => change.getBoundingClientRect().top >= top - 4);
  changes[Math.max(0, (at < 0 ? changes.length : at) + by)]?.scrollIntoView({ block: "start" });
}

function factsOf(scene: RunScene, visit: Visit): string {
  const visits = scene.visits.filter((each) => each.name === visit.name);
  const number = visits.indexOf(visit) + 1;
  const attempts = visit.tasks.length === 1 && visit.tasks[0] ? attemptCount(visit.tasks[0]) : 1;
  const took = ((visit.endedAt ?? scene.now) - visit.startedAt) / 1000;
  const cost = scene.costOf(visit);
  return [
    words.superstep(visit.superstep),
    visits.length > 1 ? words.visit(number) : "",
    attempts > 1 ? words.attempts(attempts) : "",
    Number.isFinite(visit.startedAt) ? formatTime(new Date(visit.startedAt).toISOString()) : "",
    Number.isFinite(took) ? formatDuration(took) : "",
    cost ? formatCost(cost) : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

function logsOf(store: RunStore, visit: Visit) {
  const ids = new Set(visit.tasks.map((task) => task.step.id));
  return (store.logs.value ?? []).filter((log) => ids.has(log.stepRunId)).flatMap((log) => log.lines);
}

function isAlone(scene: RunScene, visit: Visit): boolean {
  return !scene.visits.some((each) => each !== visit && each.superstep === visit.superstep);
}

function stateOrder(scene: RunScene): string[] {
  const properties = scene.graph?.stateSchema?.properties;
  return properties && typeof properties === "object" && !Array.isArray(properties) ? Object.keys(properties) : [];
}

function statesOf(store: RunStore, visit: Visit): StepStates | null {
  const states = store.states.value[visit.key];
  return states && states !== "gone" ? states : null;
}

function messagesOf(store: RunStore, scene: RunScene, visit: Visit) {
  const states = statesOf(store, visit);
  const changes = states?.after ? diffStates(states.before ?? {}, states.after) : [];
  const shown = changes.flatMap((section) => section.lines.filter((line) => line.kind === "add" && line.message).map((line) => line.message as NonNullable<typeof line.message>));
  return shown.length ? shown : findMessages(outputOf(states, visit, isAlone(scene, visit)));
}

function tabsOf(store: RunStore, scene: RunScene, visit: Visit): TabChoice<InspectorTab>[] {
  const states = statesOf(store, visit);
  const failed = visit.tasks.reduce((sum, task) => sum + task.attempts.filter((attempt) => attempt.error).length, 0);
  const changes = states?.after ? diffStates(states.before ?? {}, states.after).length : 0;
  const messages = messagesOf(store, scene, visit).length;
  const lines = logsOf(store, visit).length;
  const tabs: TabChoice<InspectorTab>[] = [
    { key: "diff", label: words.tabs.diff, count: changes },
    { key: "input", label: words.tabs.input },
    { key: "output", label: words.tabs.output },
    { key: "messages", label: words.tabs.messages, count: messages, isEmpty: !messages },
    { key: "logs", label: words.tabs.logs, count: lines, isEmpty: !lines },
    { key: "error", label: words.tabs.error, count: failed, isEmpty: !failed && visit.status !== "failed" },
  ];
  const inside = scene.innerOf(visit).length;
  if (inside) tabs.splice(1, 0, { key: "inside", label: words.tabs.inside, count: inside });
  return visit.tasks.length > 1 ? [{ key: "tasks", label: words.tabs.tasks, count: visit.tasks.length }, ...tabs] : tabs;
}

/** A step that failed opens at its error, a fan-out at its tasks; otherwise the tab stays. */
function chooseTab(visit: Visit, tabs: TabChoice<InspectorTab>[], asked: InspectorTab | null, innerKey: string | null): InspectorTab {
  if (innerKey && tabs.some((tab) => tab.key === "inside")) return "inside";
  if (asked && tabs.some((tab) => tab.key === asked)) return asked;
  if (visit.tasks.length > 1) return "tasks";
  if (visit.status === "failed" || visit.status === "retrying") return "error";
  return visit.endedAt === null ? "input" : "diff"; // what it changes is known when it ends
}

interface ContentProps {
  store: RunStore;
  scene: RunScene;
  visit: Visit;
  innerKey: string | null;
  onChoose: (key: string) => void;
  tab: InspectorTab;
  isWide: boolean;
}

function Content({ store, scene, visit, innerKey, onChoose, tab, isWide }: ContentProps) {
  const states = statesOf(store, visit);
  const isGone = store.states.value[visit.key] === "gone";
  const before: JsonMap = states?.before ?? {};
  switch (tab) {
    case "tasks":
      return <TasksTab visit={visit} now={scene.now} />;
    case "inside":
      return <InsideTab inner={scene.innerOf(visit)} chosenKey={innerKey} now={scene.now} onChoose={onChoose} />;
    case "diff":
      if (isGone) return <p class="block quiet">{words.noState}</p>;
      if (!states) return null;
      if (!states.after) return <p class="block quiet">{words.notYet}</p>;
      return <DiffView key={visit.key} before={before} after={states.after} order={stateOrder(scene)} isSplit={isWide} none={words.noDiff} />;
    case "input":
      return <ValueView title={words.read} value={states?.before ?? undefined} none={words.noState} />;
    case "output":
      return (
        <>
          <ValueView title={words.returned} value={outputOf(states, visit, isAlone(scene, visit))} none={isAlone(scene, visit) ? (states?.after ? words.noOutput : words.notYet) : words.shared} />
          <Calls scene={scene} visit={visit} />
        </>
      );
    case "messages":
      return <Conversation messages={messagesOf(store, scene, visit)} live={visit.status === "running" ? Object.values(store.live.value).join("") : ""} none={words.noMessages} />;
    case "logs":
      return <LogLines lines={logsOf(store, visit)} none={words.noLogs} />;
    case "error":
      return <ErrorTab visit={visit} run={scene.run} state={before} />;
  }
}

function Calls({ scene, visit }: { scene: RunScene; visit: Visit }) {
  const calls = scene.callsOf(visit);
  if (!calls.length) return null;
  return (
    <div class="block">
      <h3>{words.model}</h3>
      {calls.map((call) => (
        <p class="row" key={call.id}>
          <span class="grow">{words.call(call.model, call.inputTokens, call.outputTokens)}</span>
          <span class="quiet">{formatCost(call.costUsd)}</span>
        </p>
      ))}
    </div>
  );
}
