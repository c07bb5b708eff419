/* The head of one side: which run it is, and the field that chooses another one. */

import { formatMoment, shortId } from "../../format";
import { Button } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { hrefOf } from "../../router";
import { texts } from "../../texts";
import { glyphOf } from "../runs/sentence";
import { RunPicker } from "./RunPicker";
import type { Side } from "./side";

const words = texts.compare;

interface SideHeadProps {
  letter: "a" | "b";
  id: string | null;
  side: Side | null;
  graph: string | null;
  except: string | null;
  isPicking: boolean;
  hasFocus: boolean;
  onPick: (isPicking: boolean) => void;
  onChoose: (id: string) => void;
}

export function SideHead({ letter, id, side, graph, except, isPicking, hasFocus, onPick, onChoose }: SideHeadProps) {
  const name = letter.toUpperCase();
  const run = side?.run;
  return (
    <section aria-label={words.side(name)}>
      <div class="row">
        <span class="pin">{name}</span>
        {run && <Glyph status={glyphOf(run)} />}
        <h2 class="cut">{run?.graph ?? (side ? texts.run.facts.thread : id ? words.side(name) : words.none)}</h2>
        {id && (
          <a class="mono cut" href={run ? hrefOf(["runs", run.id]) : side ? hrefOf(["threads", side.threadId]) : hrefOf(["runs", id])}>
            {shortId(run?.id ?? side?.threadId ?? id)}
          </a>
        )}
        <span class="grow" />
        {id && (
          <Button look="small" label={words.change(name)} onClick={() => onPick(!isPicking)}>
            {words.other}
          </Button>
        )}
      </div>
      {run && <p class="quiet cut">{[formatMoment(run.createdAt), side.version ? words.version(side.version) : "", run.tags.join(", ")].filter(Boolean).join(" · ")}</p>}
      {isPicking && <RunPicker label={words.search(name)} graph={graph} except={except} hasFocus={hasFocus} onChoose={onChoose} onClose={() => onPick(false)} />}
    </section>
  );
}
