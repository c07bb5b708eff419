/* A schedule: when it is due, with the next times as the server computes them, and what it starts. */

import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { Json, Schedule } from "../../api/types";
import { FieldFrame, FieldView } from "../../form/Fields";
import { Group } from "../../form/containers";
import { JsonEditor } from "../../form/JsonEditor";
import { defaultOf, type Field } from "../../form/schema";
import { type Problems, validate } from "../../form/validate";
import { formatDuration } from "../../format";
import { Segments } from "../../parts/controls";
import { useLoad } from "../../parts/load";
import { now } from "../../state/clock";
import { may } from "../../state/session";
import { texts } from "../../texts";
import { startField } from "../start/envelope";
import { Editor, type Editing } from "./Editor";
import { CATCH_UPS, CRON, NAME, OVERLAPS, TAGS, ZONE } from "./fields";
import { GraphField } from "./GraphField";

const words = texts.schedules;
const SHOWN_TIMES = 5;

type Values = Record<"name" | "graph" | "cron" | "timezone" | "overlap" | "catchUp", string> & { input: Json | undefined; tags: Json | undefined };

export function ScheduleForm({ schedule }: { schedule: Schedule | null }) {
  const values = useSignal<Values>(schedule ?? { name: "", graph: "", cron: "0 9 * * *", timezone: Intl.DateTimeFormat().resolvedOptions().timeZone, overlap: "skip", catchUp: "last", input: undefined, tags: [] });
  const current = values.value;
  const input = useInputField(current.graph);
  const times = useTimes(current.cron, current.timezone);
  const check = (): Problems => {
    const found: Problems = new Map();
    for (const [name, field] of [["name", NAME], ["cron", CRON], ["timezone", ZONE]] as const) validate(field, values.value[name], true, name, found);
    if (!values.value.graph) found.set("graph", texts.form.needed);
    if (input) validate(input, inputOf(values.value, input), input.kind !== "json", "input", found);
    return found;
  };
  const save = async (): Promise<Schedule> => {
    const { name, graph, cron, timezone, overlap, catchUp } = values.value;
    const field = input ?? (await loadInputField(graph)); // who is quick may save before it is loaded
    const body = { name, cron, timezone, overlap, catchUp, input: inputOf(values.value, field) ?? null, tags: (values.value.tags ?? []) as string[] };
    return schedule ? api.changeSchedule(schedule.id, body) : api.addSchedule({ ...body, graph });
  };
  return (
    <Editor
      title={schedule ? words.editing.schedules : words.add.schedules}
      isNew={!schedule}
      check={check}
      save={save}
      remove={schedule ? () => api.removeSchedule(schedule.id) : undefined}
      side={<Times times={times.value} zone={current.timezone} isPaused={schedule?.paused ?? false} />}
    >
      {(editing) => <Fields values={values} input={input} inputValue={inputOf(current, input)} times={times.value} editing={editing} isNew={!schedule} />}
    </Editor>
  );
}

interface FieldsProps {
  values: Signal<Values>;
  input: Field | null;
  inputValue: Json | undefined;
  times: Found;
  editing: Editing;
  isNew: boolean;
}

function Fields({ values, input, inputValue, times, editing, isNew }: FieldsProps) {
  const current = values.value;
  const mode = useSignal<"form" | "json">("form");
  const set = (changes: Partial<Values>): void => {
    values.value = { ...values.value, ...changes };
    editing.recheck();
  };
  const problems: Problems = times.field && !editing.problems.size ? new Map([[times.field, times.message]]) : editing.problems;
  const view = (name: keyof Values, field: Field, isRequired = true) => (
    <FieldView field={field} name={name} path={name} value={current[name]} onChange={(next) => set({ [name]: next ?? (name === "tags" ? [] : "") } as Partial<Values>)} problems={problems} isRequired={isRequired} idPrefix="schedule" />
  );
  const hasForm = input !== null && input.kind !== "json";
  return (
    <>
      {view("name", NAME)}
      <GraphField graph={current.graph} isFixed={!isNew} help={words.graphHelp} problem={problems.get("graph")} onChange={(graph) => set({ graph, input: undefined })} />
      <div class="stack">
        {view("cron", CRON)}
        <div class="presets" role="group" aria-label={words.presetsLabel}>
          {words.presets.map(([cron, name]) => (
            <button type="button" class="chip" key={cron} aria-pressed={cron === current.cron} onClick={() => set({ cron })}>
              {name}
            </button>
          ))}
        </div>
      </div>
      {view("timezone", ZONE)}
      <FieldFrame id="schedule-overlap" path="overlap" label={words.overlap} help={words.overlapHelp[current.overlap]} problem={problems.get("overlap")} isLabelled={false}>
        <div>
          <Segments label={words.overlap} chosen={current.overlap} onChoose={(overlap) => set({ overlap })} choices={OVERLAPS.map((key) => ({ key, label: words.overlaps[key] }))} />
        </div>
      </FieldFrame>
      <FieldFrame id="schedule-catch" path="catchUp" label={words.catchUp} help={words.catchUpHelp[current.catchUp]} problem={problems.get("catchUp")} isLabelled={false}>
        <div>
          <Segments label={words.catchUp} chosen={current.catchUp} onChoose={(catchUp) => set({ catchUp })} choices={CATCH_UPS.map((key) => ({ key, label: words.catchUps[key] }))} />
        </div>
      </FieldFrame>
      {current.graph && (
        <FieldFrame id="schedule-input" path="input" label={words.input} help={words.threadHelp} problem={problems.get("input")} isLabelled={!hasForm || mode.value === "json"}>
          {hasForm && (
            <div>
              <Segments
                label={words.input}
                chosen={mode.value}
                onChoose={(key) => (mode.value = key)}
                choices={[
                  { key: "form", label: texts.inbox.form },
                  { key: "json", label: texts.inbox.json },
                ]}
              />
            </div>
          )}
          {hasForm && mode.value === "form" ? (
            <div class="inner">
              {input.kind === "group" ? (
                <Group field={input} path="input" value={inputValue} onChange={(next) => set({ input: next })} problems={problems} idPrefix="schedule" />
              ) : (
                <FieldView field={input} name="input" path="input" value={inputValue} onChange={(next) => set({ input: next })} problems={problems} isRequired idPrefix="schedule" />
              )}
            </div>
          ) : (
            <JsonEditor id="schedule-input" value={inputValue ?? undefined} rows={5} onChange={(next, problem) => !problem && set({ input: next })} />
          )}
        </FieldFrame>
      )}
      {view("tags", TAGS, false)}
    </>
  );
}

/** The input: what was given, or else what its field begins with. */
function inputOf({ input }: Values, field: Field | null): Json | undefined {
  if (input !== undefined || !field) return input;
  return defaultOf(field) ?? (field.kind === "group" ? {} : undefined);
}

/** The field for the input of a graph; null while it is not known. */
function useInputField(graph: string): Field | null {
  const [loaded] = useLoad(async (signal) => ({ graph, field: await loadInputField(graph, signal) }), [graph]);
  const found = loaded.value.data;
  return found?.graph === graph ? found.field : null;
}

async function loadInputField(graph: string, signal?: AbortSignal): Promise<Field | null> {
  if (!graph || !may("definitions:read")) return null;
  return await api.graph(graph, signal).then(({ inputSchema }) => startField(inputSchema), () => null);
}

interface Found {
  times: string[];
  field: string | null;
  message: string;
}

/** The next times of an expression, a moment after it was typed. */
function useTimes(cron: string, zone: string): Signal<Found> {
  const found = useSignal<Found>({ times: [], field: null, message: "" });
  useEffect(() => {
    let isGone = false;
    const timer = setTimeout(() => {
      if (!cron.trim() || !zone.trim()) return void (found.value = { times: [], field: null, message: "" });
      api.previewCron(cron, zone, SHOWN_TIMES).then(
        ({ times }) => !isGone && (found.value = { times, field: null, message: "" }),
        (error: unknown) => {
          if (isGone || !(error instanceof ApiError)) return;
          const [problem] = error.problems;
          found.value = { times: [], field: problem?.path.replace(/^body\./, "") ?? null, message: error.message };
        },
      );
    }, 250);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [cron, zone]);
  return found;
}

function Times({ times, zone, isPaused }: { times: Found; zone: string; isPaused: boolean }) {
  return (
    <section aria-live="polite">
      <h2>{words.nextTimes}</h2>
      {isPaused && <p class="quiet">{words.isPaused}</p>}
      {times.times.length > 0 ? (
        <>
          <ol class="times">
            {times.times.map((time) => (
              <li key={time}>
                <time dateTime={time}>{formatIn(time, zone)}</time>
                <span class="quiet">{words.in(formatDuration(Math.max(0, (Date.parse(time) - now.value) / 1000)))}</span>
              </li>
            ))}
          </ol>
          <p class="quiet">{words.inZone(zone)}</p>
        </>
      ) : (
        <p class="quiet">{times.field ? texts.none : words.noTimes}</p>
      )}
    </section>
  );
}

function formatIn(time: string, zone: string): string {
  const options: Intl.DateTimeFormatOptions = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false };
  try {
    return new Date(time).toLocaleString(undefined, { ...options, timeZone: zone });
  } catch {
    return new Date(time).toLocaleString(undefined, options); // a zone that this browser does not know
  }
}
