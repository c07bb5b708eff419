/* An approval that was decided: what, by whom, with which key, and what was changed before. */

import type { Approval } from "../../api/types";
import { Parts } from "../../diff/DiffView";
import { diffWords } from "../../diff/words";
import { formatMoment, shortId } from "../../format";
import { Glyph } from "../../parts/glyphs";
import { hrefOf } from "../../router";
import { texts } from "../../texts";

const words = texts.inbox;

export function Decided({ approval }: { approval: Approval }) {
  const { decision, content, editedContent } = approval;
  const text = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
  const isGood = decision === "approved" || decision === "edited";
  return (
    <div class="decide">
      <div class="form">
        <div>
          <p class="row quiet">
            <Glyph status={isGood ? "completed" : decision === "rejected" ? "failed" : "cancelled"} />
            {[decision ? words.decision[decision] : "", approval.decidedBy ? words.by(approval.decidedBy) : "", approval.decidedByKey ? words.withKey(approval.decidedByKey) : words.noKey].filter(Boolean).join(", ")}
          </p>
          <h2 class="question">{approval.prompt}</h2>
        </div>
        <div class="field">
          <span class="label">{approval.contentKey ?? words.content}</span>
          <div class="input prose shown">{decision === "edited" ? <Parts parts={diffWords(text(content), text(editedContent))} /> : text(content)}</div>
        </div>
      </div>
      <aside class="side">
        <section>
          <h2>{words.run}</h2>
          <p>
            <a class="mono" href={hrefOf(["runs", approval.workflowRunId], { step: approval.stepName })}>
              {shortId(approval.workflowRunId)}
            </a>
          </p>
          <p class="quiet">{approval.decidedAt ? formatMoment(approval.decidedAt) : ""}</p>
        </section>
      </aside>
    </div>
  );
}
