/* Start a run: a form from the input schema of a graph, with the inputs of earlier runs; and what the run says, beside it. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { api } from "../../api/client";
import type { Graph, GraphDescription, Json, Run } from "../../api/types";
import { JsonEditor } from "../../form/JsonEditor";
import { defaultOf } from "../../form/schema";
import { focusFirst, nameOfFirst, readProblems, shownAt } from "../../form/problems";
import { type Problems, validate } from "../../form/validate";
import { formatAge, formatValue, shortId } from "../../format";
import { useKeys } from "../../keys";
import { Bones, Button, Command, Empty, Segments } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { Problem } from "../../parts/Problem";
import { address, choose, hrefOf, open } from "../../router";
import { now } from "../../state/clock";
import { isOffline } from "../../state/connection";
import { may } from "../../state/session";
import { servedVersion } from "../../state/reload";
import { sayError } from "../../state/toast";
import { texts } from "../../texts";
import { glyphOf } from "../runs/sentence";
import { nextInput, startField, takeInput } from "./envelope";
import { InputForm } from "./InputForm";
import { Playground } from "./Playground";
import { VersionField } from "./VersionField";

const words = texts.start;

export function StartView() {
  const [graphs, reload] = useLoad((signal) => api.graphs(signal), [servedVersion.value]);
  const last = useRef<Graph[] | null>(null); // so that what was typed stays while the list is read again
  const found = graphs.value.data ?? last.current;
  last.current = found;
  if (graphs.value.error && !found) return <Problem error={graphs.value.error} onRetry={reload} />;
  if (!found) return <Bones />;
  const name = address.value.path[1] ?? found[0]?.name;
  if (!name) {
    return (
      <Empty title={words.noGraphs}>
        <p>{words.noGraphsHelp}</p>
        <Command text="statewright dev graph.py" />
      </Empty>
    );
  }
  return <StartGraph key={name} name={name} names={[...new Set([...found.map((graph) => graph.name), name])]} />;
}

function StartGraph({ name, names }: { name: string; names: string[] }) {
  const [graph] = useLoad((signal) => api.graph(name, signal), [name, servedVersion.value]);
  const lastGraph = useRef<GraphDescription | null>(null);
  const described = graph.value.data ?? lastGraph.current;
  lastGraph.current = described;
  const [earlier, again] = useLoad((signal) => api.runs(new URLSearchParams({ graph: name, pageSize: "12" }), signal), [name], 5);
  const inputOf = address.value.query.get("input");
  const [earlierRun] = useLoad((signal) => (inputOf ? api.run(inputOf, signal) : Promise.resolve(null)), [inputOf]);
  const repeated = earlierRun.value.data;
  const [versions] = useLoad((signal) => (may("definitions:read") ? api.versions(name, signal).then((page) => page.items) : Promise.resolve([])), [name]);
  const version = useSignal<string | null>(null);
  const value = useSignal<Json | undefined>(undefined);
  const mode = useSignal<"form" | "json">("form");
  const problems = useSignal<Problems>(new Map());
  const box = useRef<HTMLElement>(null);
  const isMore = useSignal(false);
  const thread = useSignal(address.value.query.get("thread") ?? "");
  const tags = useSignal("");
  const isBusy = useSignal(false);
  const schema = described?.inputSchema ?? null;
  const field = useMemo(() => startField(schema), [schema]);
  useEffect(() => {
    if (described && value.value === undefined) value.value = defaultOf(field) ?? (field.kind === "group" || field.kind === "json" ? {} : undefined);
  }, [described]);
  useEffect(() => {
    if (repeated && described) value.value = takeInput(schema, repeated.input);
    if (earlierRun.value.error) sayError(earlierRun.value.error);
  }, [repeated, described === null, earlierRun.value.error]);
  const runId = address.value.query.get("run");

  const send = async (): Promise<void> => {
    if (isBusy.value || isOffline.value) return;
    problems.value = mode.value === "form" ? validate(field, value.value, field.kind !== "json") : new Map();
    if (focusFirst(problems.value, box.current)) return;
    isBusy.value = true;
    try {
      const tagged = tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
      const target = version.value ? { definitionId: version.value } : { graph: name };
      const run = await api.start({ ...target, ...(repeated ? { metadata: { rerunOf: repeated.id } } : {}), input: value.value ?? {}, threadId: thread.value.trim() || undefined, tags: tagged.length ? tagged : undefined });
      choose({ run: run.id });
      again();
    } catch (error) {
      problems.value = readProblems(error, "input");
      setTimeout(() => focusFirst(problems.value, box.current));
      if (![...problems.value.keys()].some((path) => path && shownAt(path, box.current))) sayError(error);
    } finally {
      isBusy.value = false;
    }
  };
  useKeys({ "Ctrl+Enter": () => void send() });
  const change = (next: Json | undefined): void => {
    value.value = next;
    if (problems.value.size) problems.value = validate(field, next);
  };
  return (
    <div class="work startview">
      <aside ref={box} aria-label={words.title}>
        <header class="head">
          <h1 class="grow">{words.title}</h1>
          <Segments
            label={words.input}
            chosen={mode.value}
            onChoose={(key) => (mode.value = key)}
            choices={[
              { key: "form", label: texts.inbox.form },
              { key: "json", label: texts.inbox.json },
            ]}
          />
        </header>
        <div class="startform">
          <div class="field">
            <label for="graph">
              {words.graph}
              <small>{words.kinds[described?.kind ?? ""] ?? ""}</small>
            </label>
            <select class="input" id="graph" value={name} onChange={(event) => open(hrefOf(["start", event.currentTarget.value]))}>
              {names.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
            {described?.description && <span class="help">{described.description}</span>}
          </div>
          {repeated && (
            <div class="banner again">
              <Glyph status={glyphOf(repeated)} />
              <span class="grow">
                <b>{words.againOf(shortId(repeated.id))}</b>. {words.againHelp}
              </span>
            </div>
          )}
          <VersionField graph={graph.value.data} versions={versions.value.data ?? []} chosen={version.value} usedBy={repeated?.definitionId ?? null} onChoose={(id) => (version.value = id)} />
          {graph.value.error !== null && <Problem error={graph.value.error} />}
          {described &&
            (mode.value === "form" ? (
              <InputForm field={field} value={value.value} onChange={change} problems={problems.value} idPrefix="input" />
            ) : (
              <div class="field">
                <label for="input-json">{words.input}</label>
                <JsonEditor
                  id="input-json"
                  value={value.value}
                  rows={12}
                  onChange={(next, problem) => !problem && change(next)}
                />
              </div>
            ))}
          {isMore.value && (
            <div class="form options">
              <div class="field">
                <label for="thread">
                  {words.thread}
                  <small>{texts.form.optional}</small>
                </label>
                <input class="input mono" id="thread" value={thread.value} onInput={(event) => (thread.value = event.currentTarget.value)} />
                <span class="help">{words.threadHelp}</span>
              </div>
              <div class="field">
                <label for="tags">
                  {words.tags}
                  <small>{texts.form.optional}</small>
                </label>
                <input class="input" id="tags" value={tags.value} onInput={(event) => (tags.value = event.currentTarget.value)} />
              </div>
            </div>
          )}
        </div>
        <Earlier runs={earlier.value.data?.items ?? null} onTake={(run) => change(takeInput(schema, run.input))} />
        <footer class="foot">
          <button type="button" class="btn bare" aria-expanded={isMore.value} onClick={() => (isMore.value = !isMore.value)}>
            {words.options}
          </button>
          <span class="grow s-failed" role="status">
            {problems.value.size > 0 && texts.form.toCorrect(problems.value.size, nameOfFirst(problems.value, box.current, field))}
          </span>
          <Button look="main tall" keys="Ctrl Enter" onClick={() => void send()} isDisabled={isBusy.value || isOffline.value || !described}>
            {words.submit}
          </Button>
        </footer>
      </aside>
      <Playground runId={runId} onSend={(text, run) => void sendOn(nextInput(schema, text), run)} />
    </div>
  );
}

/** Go on with the thread of a run. */
async function sendOn(input: Json, run: Run): Promise<void> {
  try {
    const next = await api.start({ graph: run.graph, input, threadId: run.threadId });
    choose({ run: next.id });
  } catch (error) {
    sayError(error);
  }
}

function Earlier({ runs, onTake }: { runs: Run[] | null; onTake: (run: Run) => void }) {
  if (!runs) return null;
  const seen = new Set<string>();
  const distinct = runs.filter((run) => {
    const text = JSON.stringify(run.input);
    return !seen.has(text) && seen.add(text);
  });
  return (
    <div class="block earlier-list">
      <h2>{words.earlier}</h2>
      {!distinct.length && <p class="quiet">{words.noEarlier}</p>}
      {distinct.slice(0, 6).map((run) => (
        <button type="button" class="earlier" key={run.id} onClick={() => onTake(run)}>
          <Glyph status={glyphOf(run)} />
          <span class="sr">{words.inputOf} </span>
          <span class="cut">{lineOf(run.input)}</span>
          <span class="quiet">{formatAge(run.createdAt, now.value)}</span>
        </button>
      ))}
    </div>
  );
}

function lineOf(input: Json): string {
  if (input && typeof input === "object" && !Array.isArray(input)) {
    const [message] = Array.isArray(input.messages) ? input.messages : [];
    if (message && typeof message === "object" && !Array.isArray(message)) return formatValue(message.content, 60);
    return Object.values(input).map((value) => formatValue(value, 40)).join(", ");
  }
  return formatValue(input, 60);
}
