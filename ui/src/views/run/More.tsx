/* The menu of a run: what is done to it seldom. */

import { useEffect, useRef } from "preact/hooks";
import type { Run } from "../../api/types";
import { useKeys } from "../../keys";
import { hrefOf } from "../../router";
import { may } from "../../state/session";
import { texts } from "../../texts";
import { save } from "../runs/export";
import { exportPicture } from "./picture";
import type { RunStore } from "./store";

const words = texts.run;

export function More({ store, run, onClose }: { store: RunStore; run: Run; onClose: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    box.current?.querySelector<HTMLElement>("a, button")?.focus();
    const leave = (event: Event): void => {
      if (!box.current?.parentElement?.contains(event.target as Node)) onClose();
    };
    document.addEventListener("pointerdown", leave);
    return () => document.removeEventListener("pointerdown", leave);
  }, []);
  useKeys({ Escape: onClose });
  const download = (): void => {
    onClose();
    save(`${run.id}.json`, JSON.stringify({ run, steps: store.steps.value, events: store.events.value }, null, 2), "application/json");
  };
  return (
    <div class="menu end" ref={box} onClick={() => onClose()}>
      {may("threads:read") && <a href={hrefOf(["threads", run.threadId])}>{words.actions.edit}</a>}
      <a href={hrefOf(["start", run.graph], { input: run.id })}>{words.actions.again}</a>
      <a href={hrefOf(["runs", "compare"], { a: run.id })}>{texts.compare.withOther}</a>
      <button type="button" onClick={download}>
        {words.actions.download}
      </button>
      <button type="button" onClick={() => exportPicture(run.graph)}>
        {words.actions.picture}
      </button>
    </div>
  );
}
