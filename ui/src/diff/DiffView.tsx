/* A diff of two states: a section for each key, what was as before folded, and on a wide place the two sides apart. */

import { useSignal } from "@preact/signals";
import { Fragment } from "preact";
import { useMemo } from "preact/hooks";
import type { JsonMap } from "../api/types";
import { Segments } from "../parts/controls";
import { texts } from "../texts";
import { diffStates, describe, isSame, type Line, type Section, valueLines } from "./sections";
import type { Part } from "./words";

const words = texts.diff;
const MOST_LINES = 20;
const SIGNS = { add: "+", del: "−", mod: "~" };

interface DiffViewProps {
  before: JsonMap;
  after: JsonMap;
  order: string[];
  isSplit?: boolean;
  /** Two checkpoints are peers: neither is the older one. */
  arePeers?: boolean;
  none: string;
}

export function DiffView({ before, after, order, isSplit = false, arePeers = false, none }: DiffViewProps) {
  const isAll = useSignal(false);
  const sections = useMemo(() => diffStates(before, after, order), [before, after]);
  const same = useMemo(() => [...new Set([...order, ...Object.keys(after)])].filter((key) => key in after && isSame(before[key], after[key])), [before, after]);
  const count = Object.keys({ ...before, ...after }).length;
  return (
    <>
      <div class="block tally">
        <Tally sections={sections} arePeers={arePeers} />
        <span class="grow" />
        {same.length > 0 && (
          <Segments label={words.showAs} chosen={isAll.value ? "all" : "changes"} onChoose={(key) => (isAll.value = key === "all")} choices={[{ key: "changes", label: words.changes }, { key: "all", label: words.all(count) }]} />
        )}
      </div>
      {!sections.length && !isAll.value && <p class="block quiet">{none}</p>}
      <div class={`diff${isSplit ? " split" : ""}${arePeers ? " peers" : ""}`}>
        {sections.map((section) => (
          <SectionView key={section.path} section={section} isSplit={isSplit} />
        ))}
        {isAll.value &&
          same.map((key) => (
            <section class="dk" key={key}>
              <header>
                <span class="sign" />
                <code>{key}</code>
                <span class="note">{describe(after[key] ?? null)}</span>
              </header>
              <Lines lines={valueLines(after[key] ?? null, "same")} />
            </section>
          ))}
      </div>
    </>
  );
}

export function countSections(sections: Section[]): Record<Section["kind"], number> {
  const count = (kind: Section["kind"]): number => sections.filter((section) => section.kind === kind).length;
  return { add: count("add"), mod: count("mod"), del: count("del") };
}

export function Tally({ sections, arePeers = false }: { sections: Section[]; arePeers?: boolean }) {
  const counts = countSections(sections);
  const items = [
    ["plus", counts.add, arePeers ? words.onlyB : words.added],
    ["alter", counts.mod, arePeers ? words.differ : words.changed],
    ["minus", counts.del, arePeers ? words.onlyA : words.removed],
  ] as const;
  return (
    <>
      {items.map(([name, count, say]) => {
        if (!count) return null;
        const [sign, word] = say(count);
        return (
          <span key={name} class={name}>
            <b>{sign}</b>
            {word}
          </span>
        );
      })}
    </>
  );
}

function SectionView({ section, isSplit }: { section: Section; isSplit: boolean }) {
  return (
    <section class={`dk ${section.kind}`} data-change>
      <header>
        <span class="sign">{SIGNS[section.kind]}</span>
        <code>{section.path}</code>
        <span class="note">{section.note}</span>
      </header>
      {isSplit ? (
        <div class="two">
          <Side lines={section.lines} side="del" />
          <Side lines={section.lines} side="add" />
        </div>
      ) : (
        <Lines lines={section.lines} />
      )}
    </section>
  );
}

/** One side of a split diff; where it has nothing there is a quiet hatch. */
function Side({ lines, side }: { lines: Line[]; side: "add" | "del" }) {
  const mark = side === "add" ? "ins" : "del";
  const own = lines
    .filter((line) => line.kind === side || line.kind === "both" || line.kind === "fold" || line.kind === "same")
    .map((line) => (line.kind === "both" ? { ...line, kind: side, parts: line.parts.filter((part) => part.mark === "" || part.mark === mark) } : line));
  const hasOwn = own.some((line) => line.kind === side);
  return (
    <div>
      <Lines lines={own} />
      {!hasOwn && <div class="void" />}
    </div>
  );
}

export function Lines({ lines }: { lines: Line[] }) {
  const isWhole = useSignal(lines.length <= MOST_LINES + 4);
  const shown = isWhole.value ? lines : lines.slice(0, MOST_LINES);
  return (
    <>
      {shown.map((line, index) => (
        <LineView key={index} line={line} isFirst={lines[index - 1]?.kind !== line.kind} />
      ))}
      {!isWhole.value && (
        <button type="button" class="dl fold unfold" onClick={() => (isWhole.value = true)}>
          <i>⋯</i>
          <span>{words.showAll(lines.length)}</span>
        </button>
      )}
    </>
  );
}

const LINE_SIGNS = { add: "+", del: "−", same: "", fold: "⋯", both: "~" };

function LineView({ line, isFirst }: { line: Line; isFirst: boolean }) {
  if (line.message) {
    const { message } = line;
    return (
      <div class={`dmsg ${line.kind}`}>
        <i>{LINE_SIGNS[line.kind]}</i>
        <div>
          <div class="from">{message.name || message.role}</div>
          {message.text && <p>{message.text}</p>}
          {message.calls.map((call) => (
            <code key={call.id}>{`${call.name}(${JSON.stringify(call.arguments)})`}</code>
          ))}
        </div>
      </div>
    );
  }
  const kind = line.kind === "both" ? "same" : line.kind;
  return (
    <div class={`dl ${kind}${line.isProse ? " prose" : ""}`}>
      <i>{isFirst || line.kind === "fold" ? LINE_SIGNS[line.kind] : ""}</i>
      <span>
        <Parts parts={line.parts} />
      </span>
    </div>
  );
}

export function Parts({ parts }: { parts: Part[] }) {
  return (
    <>
      {parts.map((part, index) => {
        if (part.mark === "ins") return <ins key={index}>{part.text}</ins>;
        if (part.mark === "del") return <del key={index}>{part.text}</del>;
        return <Fragment key={index}>{part.text}</Fragment>;
      })}
    </>
  );
}
