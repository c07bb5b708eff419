/* One run: graph, waterfall and inspector, which share one choice; or its events, logs, times and definition. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useKeys } from "../../keys";
import { Bones, type TabChoice, Tabs } from "../../parts/controls";
import { later } from "../../parts/later";
import { Problem } from "../../parts/Problem";
import { address, choose, hrefOf, open } from "../../router";
import { isNarrow } from "../../state/screen";
import { texts } from "../../texts";
import { LatestEvents } from "./LatestEvents";
import { CHAIN } from "./graph/folds";
import { GraphPane } from "./graph/GraphPane";
import { Header } from "./Header";
import { Inspector } from "./inspector/Inspector";
import { Separator } from "./inspector/Separator";
import { LogLines } from "./inspector/LogLines";
import { ValueView } from "./inspector/ValueView";
import { findVisit, mainVisit, readAgents, readPauses } from "./model";
import { RunScene } from "./scene";
import { RunStore } from "./store";
import { Waterfall } from "./waterfall/Waterfall";

const words = texts.run;
const DefinitionTab = later(async () => (await import("./tabs")).DefinitionTab);
const EventsTab = later(async () => (await import("./tabs")).EventsTab);
const Rail = later(async () => (await import("./graph/Rail")).Rail);
type View = "overview" | "events" | "output" | "definition" | "logs";

export function RunView() {
  const id = address.value.path[1] ?? "";
  const store = useMemo(() => new RunStore(id), [id]);
  useEffect(() => {
    store.open();
    return () => store.close();
  }, [store]);
  const isWide = useSignal(false);
  const pane = address.value.query.get("pane") ?? "graph";
  const view = (address.value.query.get("view") ?? "overview") as View;
  useKeys({ Escape: () => (isWide.value ? (isWide.value = false) : open(hrefOf(["runs"]))) });
  const run = store.run.value;
  const [visits, waits, calls, events, graph] = [store.visits.value, store.waits.value, store.calls.value, store.events.value, store.graph.value];
  const tools = useMemo(() => events.filter((event) => event.eventType === "TOOL_CALLED"), [events]);
  const names = useMemo(() => new Map(store.steps.value.map((step) => [step.id, step.stepName])), [store.steps.value]);
  const [diagram, queued] = [store.diagram.value, store.queued.value];
  const pauses = useMemo(() => readPauses(events), [events]);
  const agents = useMemo(() => readAgents(events), [events]);
  const inner = store.inner.value;
  const scene = useMemo(() => run && new RunScene(run, graph, diagram, visits, waits, calls, tools, queued, pauses, agents, inner), [run, graph, diagram, visits, waits, calls, tools, queued, pauses, agents, inner]);
  useEffect(() => {
    if (view === "logs" && !store.logs.value) void store.loadLogs();
  }, [view, store]);
  const asked = address.value.query.get("step");
  const visit = findVisit(asked, visits) ?? visits.findLast((each) => each.name === asked) ?? (run && mainVisit(run, visits)) ?? null;
  const needsInner = address.value.query.getAll("open").some((id) => !id.startsWith(CHAIN)) || Boolean(visit && scene?.hasInner(visit));
  const isWorkingInside = visits.some((each) => each.status === "running" && scene?.hasInner(each));
  useEffect(() => {
    if (!needsInner) return undefined;
    void store.loadInner();
    if (!isWorkingInside) return undefined;
    const timer = setInterval(() => !document.hidden && void store.loadInner(), 2000); // no event tells of steps inside
    return () => clearInterval(timer);
  }, [store, needsInner, isWorkingInside, visits.length, visits.filter((each) => each.endedAt !== null).length]);
  if (store.error.value && !run) return <Problem error={store.error.value} onRetry={() => void store.load()} />;
  if (!run || !scene) return <Bones />;

  const chosenKey = visit && asked?.startsWith(`${visit.key}/`) ? asked : (visit?.key ?? null);
  const chooseStep = (key: string): void => choose({ step: key });
  const choosePane = (key: string): void => choose({ pane: key });
  const tabs: TabChoice<View>[] = [
    { key: "overview", label: words.tabs.overview },
    { key: "events", label: words.tabs.events, count: events.length },
    { key: "output", label: words.tabs.output },
    { key: "definition", label: words.tabs.definition },
    { key: "logs", label: words.tabs.logs },
  ];
  return (
    <div class={`runview pane-${pane}${isWide.value ? " wide" : ""}`}>
      <header class="runhead">
        <Header store={store} scene={scene} run={run} />
        <Tabs label={words.where} tabs={tabs} chosen={view} onChoose={(key) => choose({ view: key === "overview" ? null : key })} />
      </header>
      {view === "overview" && (
        <div class="panes">
          <GraphPane scene={scene} chosenKey={chosenKey} onChoose={chooseStep} onPane={choosePane} />
          {isNarrow.value && <Rail scene={scene} chosenKey={chosenKey} onChoose={chooseStep} />}
          <Waterfall scene={scene} chosenKey={chosenKey} onChoose={chooseStep} onPane={choosePane}>
            <LatestEvents events={events} namesById={names} onAll={() => choose({ view: "events" })} />
          </Waterfall>
          <Separator />
          <Inspector store={store} scene={scene} visit={visit} innerKey={chosenKey === visit?.key ? null : chosenKey} onChoose={chooseStep} isWide={isWide.value} onWiden={() => (isWide.value = !isWide.value)} />
        </div>
      )}
      {view === "events" && <EventsTab events={events} namesById={names} />}
      {view === "definition" && (
        <div class="panes two-panes">
          <GraphPane scene={scene} chosenKey={chosenKey} onChoose={chooseStep} />
          <section class="pane scrolls" tabIndex={0}>
            <DefinitionTab store={store} nodes={[asked, visit?.name ?? null]} />
          </section>
        </div>
      )}
      {view === "output" && (
        <div class="panes halves">
          <section class="pane scrolls" tabIndex={0}>
            <ValueView title={words.inspector.tabs.input} value={run.input} none={texts.none} />
          </section>
          <section class="pane scrolls" tabIndex={0}>
            <ValueView title={words.inspector.tabs.output} value={run.output} none={words.says[run.status]} />
          </section>
        </div>
      )}
      {view === "logs" && (
        <section class="sheet scrolls" tabIndex={0}>
          <LogLines lines={(store.logs.value ?? []).flatMap((log) => log.lines)} none={words.logs.none} />
        </section>
      )}
    </div>
  );
}

