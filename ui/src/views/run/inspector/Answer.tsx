/* A step that asks leads to its question. */

import { Glyph } from "../../../parts/glyphs";
import { hrefOf } from "../../../router";
import { isAnswerable, promptOf } from "../../../state/waits";
import { texts } from "../../../texts";
import type { Visit } from "../model";
import type { RunStore } from "../store";

export function Answer({ store, visit }: { store: RunStore; visit: Visit }) {
  const ids = new Set(visit.tasks.map((task) => task.step.id));
  const waits = store.waits.value.filter((wait) => ids.has(wait.stepRunId) && isAnswerable(wait));
  return (
    <>
      {waits.slice(0, 3).map((wait) => (
        <div class="banner" key={wait.id}>
          <Glyph status={wait.kind === "question" ? "waiting" : "timer"} />
          <span class="grow">{wait.kind === "event" ? texts.inbox.waitsFor(wait.signalType ?? "") : (promptOf(wait) ?? texts.sentence.asks(wait.stepName))}</span>
          <a class="btn small" href={hrefOf(["inbox", wait.id])}>
            {texts.run.actions.answer(1)}
          </a>
        </div>
      ))}
    </>
  );
}
