/* A question of a run that is being watched: answered where it is asked. */

import { useRef } from "preact/hooks";
import type { Wait } from "../../api/types";
import { Button, SureButton } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { hrefOf } from "../../router";
import { texts } from "../../texts";
import { AnswerForm } from "../inbox/AnswerForm";
import { useAnswering } from "../inbox/answering";
import { titleOf } from "../inbox/questions";

const words = texts.inbox;

export function QuestionInPlace({ wait, onDone }: { wait: Wait; onDone: () => void }) {
  const box = useRef<HTMLElement>(null);
  const answering = useAnswering(wait, () => box.current, onDone);
  const { kind, isDisabled, isEdited, mayAnswer, send, sendValue, decide } = answering;
  return (
    <section class="question-in" ref={box} aria-label={titleOf(wait)}>
      <header class="row">
        <Glyph status={wait.kind === "event" ? "timer" : "waiting"} />
        <h2 class="grow">{titleOf(wait)}</h2>
        <a class="link" href={hrefOf(["inbox", wait.id])}>
          {words.title}
        </a>
      </header>
      {!mayAnswer && <p class="quiet">{words.mayNot}</p>}
      <AnswerForm wait={wait} answering={answering} isJson={false} />
      <div class="row acts">
        {kind === "tool" && (
          <>
            <Button onClick={() => sendValue(false)} isDisabled={isDisabled}>
              {words.refuse}
            </Button>
            <Button look="main" onClick={() => sendValue(true)} isDisabled={isDisabled}>
              {words.allow}
            </Button>
          </>
        )}
        {kind === "approval" && (
          <SureButton sure={words.sure} onSure={() => decide("rejected")} isDisabled={isDisabled}>
            <span class="s-failed">{words.reject}</span>
          </SureButton>
        )}
        {kind !== "tool" && (
          <Button look="main" onClick={send} isDisabled={isDisabled}>
            {kind === "approval" ? (isEdited ? words.approveChanged : words.approve) : kind === "event" ? words.sendEvent : words.answer}
          </Button>
        )}
      </div>
    </section>
  );
}
