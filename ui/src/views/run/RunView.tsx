/* One run: graph, waterfall and inspector, which share one choice; or its events, logs, times and definition. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useKeys } from "../../keys";
import { Bones, type TabChoice, Tabs } from "../../parts/controls";
import { Problem } from "../../parts/Problem";
import { address, choose, hrefOf, open } from "../../router";
import { texts } from "../../texts";
import { DefinitionTab } from "./DefinitionTab";
import { EventsTab, LatestEvents } from "./EventsTab";
import { GraphPane } from "./graph/GraphPane";
import { Header } from "./Header";
import { Inspector } from "./inspector/Inspector";
import { LogLines } from "./inspector/LogLines";
import { ValueView } from "./inspector/ValueView";
import { mainVisit, readPauses } from "./model";
import { Rail } from "./graph/Rail";
import { RunScene } from "./scene";
import { RunStore } from "./store";
import { Waterfall } from "./waterfall/Waterfall";

const words = texts.run;
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
  const scene = useMemo(() => run && new RunScene(run, graph, diagram, visits, waits, calls, tools, queued, pauses), [run, graph, diagram, visits, waits, calls, tools, queued, pauses]);
  useEffect(() => {
    if (view === "logs" && !store.logs.value) void store.loadLogs();
  }, [view, store]);
  if (store.error.value && !run) return <Problem error={store.error.value} onRetry={() => void store.load()} />;
  if (!run || !scene) return <Bones />;

  const asked = address.value.query.get("step");
  const visit = visits.find((each) => each.key === asked) ?? visits.findLast((each) => each.name === asked) ?? mainVisit(run, visits) ?? null;
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
          <GraphPane scene={scene} chosenKey={visit?.key ?? null} onChoose={chooseStep} onPane={choosePane} />
          <Rail scene={scene} chosenKey={visit?.key ?? null} onChoose={chooseStep} />
          <Waterfall scene={scene} chosenKey={visit?.key ?? null} onChoose={chooseStep} onPane={choosePane}>
            <LatestEvents events={events} namesById={names} onAll={() => choose({ view: "events" })} />
          </Waterfall>
          <Inspector store={store} scene={scene} visit={visit} onChoose={chooseStep} isWide={isWide.value} onWiden={() => (isWide.value = !isWide.value)} />
        </div>
      )}
      {view === "events" && <EventsTab events={events} namesById={names} />}
      {view === "definition" && (
        <div class="panes two-panes">
          <GraphPane scene={scene} chosenKey={visit?.key ?? null} onChoose={chooseStep} />
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

