/* The inbox: what asks in all runs, with a form for the answer; and what was decided, by whom. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Approval, PastAnswer, Wait } from "../../api/types";
import { formatAge, formatAgo, formatDuration, formatValue, secondsBetween } from "../../format";
import { useKeys } from "../../keys";
import { Bones, Empty, Segments } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { address, choose, hrefOf, open } from "../../router";
import { now } from "../../state/clock";
import { answerable, waits } from "../../state/waits";
import { texts } from "../../texts";
import { Answered } from "./Answered";
import { Decided } from "./Decided";
import { loadDone } from "./done";
import { type Kind, kindOf, titleOf } from "./questions";
import { QuestionView } from "./QuestionView";

const words = texts.inbox;

export function InboxView() {
  const isDecided = address.value.query.has("decided");
  const kind = (address.value.query.get("kind") ?? "") as Kind | "";
  const [decided] = useLoad((signal) => (isDecided ? loadDone(signal) : Promise.resolve(null)), [isDecided], isDecided ? 10 : 0);
  const all = answerable.value;
  const shown = [...all].filter((wait) => !kind || groupOf(wait) === kind).sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  const id = address.value.path[1];
  const done = isDecided ? (decided.value.data ?? []) : [];
  const chosenDone = done.find((each) => each.id === id) ?? done[0];
  const isNarrow = useSignal(false);
  useEffect(() => {
    const query = matchMedia("(max-width: 719px)");
    const note = (): void => void (isNarrow.value = query.matches);
    note();
    query.addEventListener("change", note);
    return () => query.removeEventListener("change", note);
  }, []);
  const current = shown.find((wait) => wait.id === id) ?? (id || isNarrow.value ? undefined : shown[0]);
  const move = (by: number) => (): void => {
    const ids = isDecided ? done.map((each) => each.id) : shown.map((wait) => wait.id);
    const chosen = address.peek().path[1]; // keys may come faster than this is rendered
    const at = ids.indexOf(chosen ?? (isDecided ? chosenDone?.id : current?.id) ?? "");
    const next = ids[Math.min(ids.length - 1, Math.max(0, at + by))];
    if (!next) return;
    show(next, isDecided);
    setTimeout(() => document.querySelector(".ask[aria-current]")?.scrollIntoView({ block: "nearest" }));
  };
  useKeys({
    j: move(1),
    k: move(-1),
    Enter: () => document.querySelector<HTMLElement>(".decide .form :is(input, textarea, select), .foot .main")?.focus(),
  });
  const isOpen = Boolean(current ?? (isDecided && id));
  return (
    <div class={`work inboxview${isOpen ? " has-open" : ""}`}>
      <aside>
        <header class="head">
          <h1 class="grow">{words.title}</h1>
          <Segments
            label={words.title}
            chosen={isDecided ? "decided" : "open"}
            onChoose={(key) => open(hrefOf(["inbox"], { decided: key === "decided" ? "1" : null }))}
            choices={[
              { key: "open", label: words.open(all.length) },
              { key: "decided", label: words.decided },
            ]}
          />
        </header>
        {!isDecided && (
          <nav class="views" aria-label={texts.runs.views}>
            {(["", "approval", "question", "event"] as const).map((key) => (
              <button type="button" key={key} aria-current={kind === key ? "page" : undefined} onClick={() => choose({ kind: key || null })}>
                {key === "" ? words.all : key === "approval" ? words.approvals : key === "question" ? words.questions : words.events}
              </button>
            ))}
          </nav>
        )}
        <div class="asks">
          {!isDecided && shown.map((wait) => <Ask key={wait.id} wait={wait} isCurrent={wait.id === current?.id} />)}
          {done.map((each) => (each.approval ? <DecidedRow key={each.id} approval={each.approval} isCurrent={each === chosenDone} /> : <AnsweredRow key={each.id} answer={each.answer} isCurrent={each === chosenDone} />))}
          {!isDecided && waits.value !== null && !shown.length && <p class="block quiet">{words.empty}</p>}
          {!isDecided && shown.length > 0 && (
            <dl class="keyhints only-wide" aria-label={words.keysLabel}>
              {words.keys.map(([keys, what]) => (
                <div key={keys}>
                  <dt>
                    {keys.split(" ").map((key) => (
                      <kbd key={key}>{key}</kbd>
                    ))}
                  </dt>
                  <dd>{what}</dd>
                </div>
              ))}
            </dl>
          )}
        </div>
      </aside>
      <section class="pane asked">
        {isDecided ? (
          chosenDone?.approval ? (
            <Decided approval={chosenDone.approval} />
          ) : chosenDone ? (
            <Answered key={chosenDone.id} answer={chosenDone.answer} />
          ) : decided.value.data ? (
            <Empty title={words.emptyDecided} />
          ) : (
            <Bones />
          )
        ) : current ? (
          <QuestionView key={current.id} wait={current} onDone={() => open(hrefOf(["inbox"]))} />
        ) : waits.value === null ? (
          <Bones />
        ) : id ? (
          <Empty title={words.gone}>
            <a class="btn" href={hrefOf(["inbox"])}>
              {words.back}
            </a>
          </Empty>
        ) : (
          !isNarrow.value && (
            <Empty title={words.empty}>
              <p>{words.emptyHelp}</p>
            </Empty>
          )
        )}
      </section>
    </div>
  );
}

/** Whether a tool may be called is an approval, too. */
function groupOf(wait: Wait): Kind {
  const kind = kindOf(wait);
  return kind === "tool" ? "approval" : kind;
}

function show(id: string, isDecided: boolean): void {
  const kind = address.peek().query.get("kind");
  history.replaceState(history.state, "", hrefOf(["inbox", id], isDecided ? { decided: "1" } : { kind }));
  dispatchEvent(new PopStateEvent("popstate"));
}

function Ask({ wait, isCurrent }: { wait: Wait; isCurrent: boolean }) {
  const due = wait.dueAt ? secondsBetween(new Date(now.value).toISOString(), wait.dueAt) : null;
  return (
    <a class="ask" href={hrefOf(["inbox", wait.id], { kind: address.value.query.get("kind") })} aria-current={isCurrent ? "true" : undefined}>
      <Glyph status={wait.kind === "event" ? "timer" : "waiting"} />
      <span class="cut2">{titleOf(wait)}</span>
      <span class="quiet nowrap">{formatAge(wait.createdAt, now.value)}</span>
      <span class="sub2 row">
        <span class="grow cut">{wait.stepName}</span>
        {due !== null && <span class={due < 0 ? "late" : ""}>{due < 0 ? words.late(formatAgo(wait.dueAt ?? "", now.value)) : words.due(formatDuration(due))}</span>}
      </span>
    </a>
  );
}

function AnsweredRow({ answer, isCurrent }: { answer: PastAnswer; isCurrent: boolean }) {
  return (
    <a class="ask" href={hrefOf(["inbox", answer.id], { decided: "1" })} aria-current={isCurrent ? "true" : undefined}>
      <Glyph status="completed" />
      <span class="cut2">{formatValue(answer.answer)}</span>
      <span class="quiet nowrap">{formatAge(answer.createdAt, now.value)}</span>
      <span class="sub2 cut">{`${words.wasAnswered}, ${answer.graph}`}</span>
    </a>
  );
}

function DecidedRow({ approval, isCurrent }: { approval: Approval; isCurrent: boolean }) {
  const { decision } = approval;
  return (
    <a class="ask" href={hrefOf(["inbox", approval.id], { decided: "1" })} aria-current={isCurrent ? "true" : undefined}>
      <Glyph status={decision === "approved" || decision === "edited" ? "completed" : decision === "rejected" ? "failed" : "cancelled"} />
      <span class="cut2">{approval.prompt}</span>
      <span class="quiet nowrap">{approval.decidedAt ? formatAge(approval.decidedAt, now.value) : ""}</span>
      <span class="sub2">{[decision ? words.decision[decision] : "", approval.decidedBy ? words.by(approval.decidedBy) : ""].filter(Boolean).join(" ")}</span>
    </a>
  );
}
