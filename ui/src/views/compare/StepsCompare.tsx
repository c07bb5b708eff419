/* The steps of two runs side by side, with the first that differs marked, and what differs in the chosen one. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useKeys } from "../../keys";
import { Empty } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { address, choose } from "../../router";
import { texts } from "../../texts";
import type { Visit } from "../run/model";
import { windowAt } from "../runs/windowing";
import { fieldsThatDiffer, findParting, outputOf, type Parting, type Row } from "./align";
import { RowDiff } from "./RowDiff";
import type { Forking, Side } from "./side";

const words = texts.compare;
const ROW = 36;

interface StepsProps {
  a: Side;
  b: Side;
  rows: Row[];
  fork: Forking | null;
  totals: ComponentChildren;
}

export function StepsCompare({ a, b, rows, fork, totals }: StepsProps) {
  const parting = findParting(rows);
  const asked = address.value.query.get("step");
  const here = rows.find((row) => row.key === asked) ?? parting?.first ?? rows[0];
  const go = (row: Row | undefined): void => row && choose({ step: row.key });
  const move = (by: number) => (): void => go(rows[rows.indexOf(here as Row) + by]);
  const jump = (by: 1 | -1) => (): void => {
    const at = rows.indexOf(here as Row);
    const isNews = (row: Row): boolean => row.differs.length > 0 && !row.isCarried;
    go(by > 0 ? rows.slice(at + 1).find(isNews) : rows.slice(0, Math.max(0, at)).findLast(isNews));
  };
  useKeys({ j: move(1), k: move(-1), "]": jump(1), "[": jump(-1) });
  if (!rows.length || !here) return <Empty title={words.noSteps} />;
  return (
    <div class="work timeview compareview">
      <StepList rows={rows} here={here} first={parting?.first ?? null} onChoose={go} />
      <section class="pane scrolls" tabIndex={0} aria-label={words.differences}>
        <div class="part" role="status">
          <div class="grow">
            {fork && <p>{fork.isSecond ? words.forked("B", "A", fork.superstep) : words.forked("A", "B", fork.superstep)}</p>}
            {partingWords(parting, rows, a, b).map((sentence) => (
              <p key={sentence}>{sentence}</p>
            ))}
          </div>
          {parting?.route && parting.route !== here && (
            <button type="button" class="link nowrap" onClick={() => go(parting.route ?? undefined)}>
              {words.showRoute}
            </button>
          )}
        </div>
        {totals}
        <RowDiff key={here.key} row={here} a={a} b={b} />
      </section>
    </div>
  );
}

/** The sentences that say where two runs part. */
function partingWords(parting: Parting | null, rows: Row[], a: Side, b: Side): string[] {
  const isKnown = rows.every((row) => row.isKnown);
  if (!parting) return [isKnown ? words.sameWay : words.sameWayUnknown];
  const { first, route, after } = parting;
  const said: string[] = [];
  const [x, y] = [first.a, first.b];
  if (x && y && first !== route) {
    const [one, other] = [a.trail.states.get(x.superstep), b.trail.states.get(y.superstep)];
    if (first.differs.includes("input")) said.push(words.partInput(x.name, fieldsThatDiffer(one?.before, other?.before)));
    else if (first.differs.includes("output")) said.push(words.partOutput(x.name, fieldsThatDiffer(outputOf(x, one), outputOf(y, other))));
    else said.push(words.partResult(x.name, texts.status[x.status], texts.status[y.status]));
  }
  if (route) said.push(words.partRoute(after, route.a?.name ?? null, route.b?.name ?? null, first === route));
  else said.push(words.sameRoute);
  return said;
}

interface StepListProps {
  rows: Row[];
  here: Row;
  first: Row | null;
  onChoose: (row: Row | undefined) => void;
}

/** The list of steps: one stop for the tab key, arrows within; only what is visible is in the document. */
function StepList({ rows, here, first, onChoose }: StepListProps) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(700);
  const at = rows.indexOf(here);
  useEffect(() => {
    const list = box.current;
    if (!list) return;
    height.value = list.clientHeight;
    const y = at * ROW;
    if (y < list.scrollTop || y + ROW > list.scrollTop + list.clientHeight) list.scrollTop = y - list.clientHeight / 3;
    if (list.contains(document.activeElement)) list.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
  }, [at]);
  const press = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    onChoose(rows[at + by]);
  };
  const shown = windowAt(top.value, height.value, ROW, rows.length);
  return (
    <aside class="pairs">
      <div class="pairhead" aria-hidden>
        <span />
        <span class="pin">A</span>
        <span class="pin">B</span>
        <span class="quiet">{words.differsIn}</span>
      </div>
      <div class="scrolls pairlist" role="listbox" aria-label={words.steps} ref={box} onScroll={(event) => (top.value = event.currentTarget.scrollTop)} onKeyDown={press}>
        <div role="presentation" style={{ height: `${shown.first * ROW}px` }} />
        {rows.slice(shown.first, shown.end).map((row, index) => (
          <PairRow key={row.key} row={row} number={shown.first + index} count={rows.length} isHere={row === here} isFirst={row === first} onChoose={() => onChoose(row)} />
        ))}
        <div role="presentation" style={{ height: `${(rows.length - shown.end) * ROW}px` }} />
      </div>
    </aside>
  );
}

interface PairRowProps {
  row: Row;
  number: number;
  count: number;
  isHere: boolean;
  isFirst: boolean;
  onChoose: () => void;
}

function PairRow({ row, number, count, isHere, isFirst, onChoose }: PairRowProps) {
  const differs = row.differs.map((aspect) => words.aspects[aspect]).join(", ");
  return (
    <div class={`pair-row${isHere ? " here" : ""}${row.differs.length && !row.isCarried ? " differs" : ""}${isFirst ? " parts" : ""}`} role="option" aria-selected={isHere} aria-posinset={number + 1} aria-setsize={count} tabIndex={isHere ? 0 : -1} onClick={onChoose}>
      <span class="n">{row.a?.superstep ?? row.b?.superstep ?? ""}</span>
      <Cell visit={row.a} />
      <Cell visit={row.b} />
      <span class={`cut what${row.isCarried ? " quiet" : ""}`}>
        {isFirst && <b>{words.here}</b>}
        {differs || (row.isKnown ? <span class="quiet">{words.alike}</span> : <span class="quiet">{words.unknown}</span>)}
      </span>
    </div>
  );
}

function Cell({ visit }: { visit: Visit | null }) {
  if (!visit) return <span class="quiet">{texts.none}</span>;
  return (
    <span class="row cut">
      <Glyph status={visit.status} />
      <span class="cut">
        {visit.name} {visit.tasks.length > 1 && <span class="quiet">{texts.run.graph.times(visit.tasks.length)}</span>}
      </span>
    </span>
  );
}
