/* What differs in one step: what it read, what it returned, and the state afterwards. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../../api/client";
import type { Json, JsonMap } from "../../api/types";
import { DiffView } from "../../diff/DiffView";
import { isSame } from "../../diff/sections";
import { Tabs } from "../../parts/controls";
import { may } from "../../state/session";
import { texts } from "../../texts";
import type { Visit } from "../run/model";
import { outputOf, type Row, type States } from "./align";
import type { Side } from "./side";

const words = texts.compare;
type Part = "input" | "output" | "state" | "error";

export function RowDiff({ row, a, b }: { row: Row; a: Side; b: Side }) {
  const chosen = useSignal<Part | null>(null);
  const [one, other] = [useStates(a, row.a), useStates(b, row.b)];
  const values: Record<Part, [Json | null | undefined, Json | null | undefined]> = {
    input: [one?.before, other?.before],
    output: [row.a ? outputOf(row.a, one) : null, row.b ? outputOf(row.b, other) : null],
    state: [one?.after, other?.after],
    error: [errorOf(row.a), errorOf(row.b)],
  };
  const differs = (part: Part): boolean => !isSame(values[part][0] ?? null, values[part][1] ?? null);
  const hasError = values.error.some((value) => value !== null);
  const usual: Part = row.differs.includes("input") ? "input" : row.differs.includes("output") || !hasError ? "output" : "error";
  const part = chosen.value ?? usual;
  const tabs = (["output", "input", "state", "error"] as const).map((key) => ({ key, label: words.parts[key], count: differs(key) ? 1 : undefined, isEmpty: key === "error" ? !hasError : !differs(key) }));
  const [before, after] = values[part];
  const isMissing = (before === null || before === undefined) && (after === null || after === undefined);
  return (
    <>
      <div class="rowhead">
        <h2 class="cut">{titleOf(row)}</h2>
        <Tabs label={titleOf(row)} tabs={tabs.map(({ count, ...tab }) => ({ ...tab, label: count ? <>{tab.label} <span class="dotted">{words.differsMark}</span></> : tab.label }))} chosen={part} onChoose={(key) => (chosen.value = key)} />
      </div>
      {isMissing ? <p class="block quiet">{part === "error" ? words.noError : words.noStates}</p> : <DiffView key={part} before={toMap(before)} after={toMap(after)} order={[]} isSplit arePeers none={words.sameHere} />}
    </>
  );
}

function titleOf({ a, b }: Row): string {
  if (a && b) return a.name === b.name ? a.name : words.either(a.name, b.name);
  return a ? words.only("A", a.name) : b ? words.only("B", b.name) : "";
}

/** The states around a visit: those of the history, or else they are asked for. */
function useStates(side: Side, visit: Visit | null): States | undefined {
  const known = visit ? side.trail.states.get(visit.superstep) : undefined;
  const loaded = useSignal<States | undefined>(undefined);
  const step = visit?.tasks[0]?.step.id;
  const isNeeded = Boolean(side.run && step && !known?.before && may("threads:read"));
  useEffect(() => {
    if (!isNeeded || !side.run || !step) return undefined;
    const controller = new AbortController();
    void api.states(side.run.id, step, controller.signal).then(
      (states) => (loaded.value = states),
      () => undefined,
    );
    return () => controller.abort();
  }, [isNeeded, step]);
  return known?.before ? known : (loaded.value ?? known);
}

function errorOf(visit: Visit | null): Json | null {
  const error = visit?.tasks.map((task) => task.step.error).find((each) => each !== null && each?.code !== "STOPPED");
  return error ? ({ code: error.code ?? null, message: error.message } as JsonMap) : null;
}

function toMap(value: Json | null | undefined): JsonMap {
  if (value === null || value === undefined) return {};
  return typeof value === "object" && !Array.isArray(value) ? value : { value };
}
