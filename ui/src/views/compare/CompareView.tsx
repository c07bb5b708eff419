/* Two runs side by side: where they part, and what differs in the state, at any two checkpoints. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { useKeys } from "../../keys";
import { formatCost, formatCount, formatDuration } from "../../format";
import { Bones, Button, Empty, Tabs } from "../../parts/controls";
import { Problem } from "../../parts/Problem";
import { address, choose, hrefOf } from "../../router";
import { now } from "../../state/clock";
import { texts } from "../../texts";
import { ageOf } from "../runs/sentence";
import { alignRuns } from "./align";
import { forkBetween, type Side, trailAfter, useSide } from "./side";
import { SideHead } from "./SideHead";
import { StateCompare } from "./StateCompare";
import { StepsCompare } from "./StepsCompare";

const words = texts.compare;
type View = "steps" | "state";

export function CompareView() {
  const query = address.value.query;
  const [a, b] = [query.get("a"), query.get("b")];
  const [left, againLeft] = useSide(a);
  const [right, againRight] = useSide(b);
  const picking = useSignal<"a" | "b" | null>(null);
  const [one, other] = [left.value.data, right.value.data];
  const view: View = query.get("view") === "state" || (one && !one.run) || (other && !other.run) ? "state" : "steps";
  const fork = one && other ? forkBetween(one, other) : null;
  const rows = useMemo(() => (one && other ? alignRuns(trailAfter(one, fork), trailAfter(other, fork)) : []), [one, other]);
  const swap = (): void => choose({ a: b, b: a, ac: query.get("bc"), bc: query.get("ac"), step: null });
  const pick = (letter: "a" | "b") => (id: string): void => {
    picking.value = null;
    choose({ [letter]: id, [`${letter}c`]: null, step: null }, true);
  };
  useKeys({ s: swap });
  const graph = one?.run?.graph ?? other?.run?.graph ?? null;
  const sides = [
    { letter: "a" as const, id: a, side: one, error: left.value.error, again: againLeft, except: b },
    { letter: "b" as const, id: b, side: other, error: right.value.error, again: againRight, except: a },
  ];
  const tabs = [
    { key: "steps" as const, label: words.steps, isEmpty: Boolean((one && !one.run) || (other && !other.run)) },
    { key: "state" as const, label: words.state },
  ];
  return (
    <div class="threadpage comparepage">
      <header class="runhead">
        <nav class="crumbs" aria-label={texts.run.where}>
          <a href={hrefOf(["runs"])}>{texts.nav.runs}</a>/{graph && <a href={hrefOf(["runs"], { graph })}>{graph}</a>}
          {graph && "/"}
          <span>{words.title}</span>
        </nav>
        <div class="title">
          <h1>{words.title}</h1>
          <span class="grow" />
          <Button onClick={swap} keys="S" isDisabled={!a || !b}>
            {words.swap}
          </Button>
        </div>
        <Tabs label={words.title} tabs={tabs} chosen={view} onChoose={(key) => choose({ view: key === "steps" ? null : key })} />
      </header>
      <div class="versus">
        {sides.map(({ letter, id, side, except }) => (
          <SideHead key={letter} letter={letter} id={id} side={side} graph={graph} except={except} isPicking={picking.value === letter || !id} hasFocus={picking.value === letter || (!id && Boolean(except))} onPick={(is) => (picking.value = is ? letter : null)} onChoose={pick(letter)} />
        ))}
      </div>
      {sides.map(({ letter, id, side, error, again }) => id && error !== null && !side && <Problem key={letter} error={error} onRetry={again} />)}
      {!a || !b ? (
        <Empty title={words.choose}>
          <p>{words.chooseHelp}</p>
        </Empty>
      ) : one && other ? (
        view === "state" ? (
          <StateCompare a={one} b={other} />
        ) : (
          <StepsCompare a={one} b={other} rows={rows} fork={fork} totals={<Totals a={one} b={other} />} />
        )
      ) : (
        left.value.error === null && right.value.error === null && <Bones />
      )}
    </div>
  );
}

/** What each run took, and by how much the second differs. */
function Totals({ a, b }: { a: Side; b: Side }) {
  const ages = [a, b].map((side) => side.run && ageOf(side.run, now.value));
  const tokens = [a, b].map((side) => (side.cost?.inputTokens ?? 0) + (side.cost?.outputTokens ?? 0));
  const costs = [a, b].map((side) => side.cost?.costUsd ?? 0);
  const rows: [string, (number | null | undefined)[], (value: number) => string][] = [[texts.run.facts.duration, ages, formatDuration]];
  if (tokens.some(Boolean)) rows.push([texts.run.facts.tokens, tokens, formatCount]);
  if (costs.some(Boolean)) rows.push([texts.run.facts.cost, costs, formatCost]);
  return (
    <table class="totals">
      <thead>
        <tr>
          <th>{words.soFar}</th>
          <th>A</th>
          <th>B</th>
          <th class="num">{words.difference}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, [x, y], format]) => {
          const isKnown = typeof x === "number" && typeof y === "number";
          const by = isKnown ? y - x : 0;
          return (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{typeof x === "number" ? format(x) : texts.none}</td>
              <td>{typeof y === "number" ? format(y) : texts.none}</td>
              <td class="num">{!isKnown ? texts.none : by ? `${by < 0 ? "−" : "+"}${format(Math.abs(by))}` : words.alike}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
