/* A question that was answered: with what, when, and with which key. */

import { api } from "../../api/client";
import type { PastAnswer } from "../../api/types";
import { formatMoment, shortId } from "../../format";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { hrefOf } from "../../router";
import { texts } from "../../texts";
import { ValueView } from "../run/inspector/ValueView";

const words = texts.inbox;
const MOST_STEPS = 1000;

export function Answered({ answer }: { answer: PastAnswer }) {
  const { id, workflowRunId, graph, byKey } = answer;
  const [trace] = useLoad((signal) => api.trace(workflowRunId, { limit: MOST_STEPS }, signal), [workflowRunId]);
  const step = trace.value.data?.steps.find((each) => each.waits.some((wait) => wait.id === id));
  const wait = step?.waits.find((each) => each.id === id);
  return (
    <div class="decide">
      <div class="form">
        <div>
          <p class="row quiet">
            <Glyph status="completed" />
            {[words.wasAnswered, byKey ? words.withKey(byKey) : words.noKey].join(", ")}
          </p>
          <h2 class="question">{step ? texts.sentence.asks(step.stepName) : graph}</h2>
        </div>
        <ValueView title={words.answered} value={answer.answer} none={texts.none} />
      </div>
      <aside class="side">
        <section>
          <h2>{words.run}</h2>
          <p>
            {graph}{" "}
            <a class="mono" href={hrefOf(["runs", workflowRunId], { step: step?.stepName ?? null })}>
              {shortId(workflowRunId)}
            </a>
          </p>
          <p class="quiet">{wait ? words.askedAt(formatMoment(wait.startedAt)) : ""}</p>
          <p class="quiet">{words.answeredAt(formatMoment(answer.createdAt))}</p>
        </section>
      </aside>
    </div>
  );
}
