/* The inbox: what asks in all runs, with a form for the answer; and what was decided, by whom. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../../api/client";
import type { Approval, Wait } from "../../api/types";
import { formatAge, formatAgo, formatDuration, secondsBetween } from "../../format";
import { useKeys } from "../../keys";
import { Bones, Empty, Segments } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { address, choose, hrefOf, open } from "../../router";
import { now } from "../../state/clock";
import { answerable, waits } from "../../state/waits";
import { texts } from "../../texts";
import { Decided } from "./Decided";
import { type Kind, kindOf, titleOf } from "./questions";
import { QuestionView } from "./QuestionView";

const words = texts.inbox;

export function InboxView() {
  const isDecided = address.value.query.has("decided");
  const kind = (address.value.query.get("kind") ?? "") as Kind | "";
  const [decided] = useLoad((signal) => (isDecided ? api.approvals({ pending: false, pageSize: 100 }, signal) : Promise.resolve(null)), [isDecided], isDecided ? 10 : 0);
  const all = answerable.value;
  const shown = [...all].filter((wait) => !kind || kindOf(wait) === kind).sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  const id = address.value.path[1];
  const approval = isDecided ? (decided.value.data?.items.find((each) => each.id === id) ?? decided.value.data?.items[0]) : undefined;
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
    const chosen = address.peek().path[1]; // keys may come faster than this is rendered
    const at = shown.findIndex((wait) => wait.id === (chosen ?? current?.id));
    const next = shown[Math.min(shown.length - 1, Math.max(0, at + by))];
    if (next) show(next);
  };
  useKeys({
    j: move(1),
    k: move(-1),
    Enter: () => document.querySelector<HTMLElement>(".decide input, .decide textarea, .decide button")?.focus(),
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
          {isDecided && decided.value.data?.items.map((each) => <Done key={each.id} approval={each} isCurrent={each.id === approval?.id} />)}
          {!isDecided && waits.value !== null && !shown.length && <p class="block quiet">{words.empty}</p>}
          {!isDecided && shown.length > 1 && (
            <p class="block quiet only-wide">
              <kbd>J</kbd> <kbd>K</kbd> {words.keys[0]} <kbd>Enter</kbd> {words.keys[1]}
            </p>
          )}
        </div>
      </aside>
      <section class="pane asked">
        {isDecided ? (
          approval ? (
            <Decided approval={approval} />
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

function show(wait: Wait): void {
  const kind = address.peek().query.get("kind");
  history.replaceState(null, "", hrefOf(["inbox", wait.id], { kind }));
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

function Done({ approval, isCurrent }: { approval: Approval; isCurrent: boolean }) {
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
