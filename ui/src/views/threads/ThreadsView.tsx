/* Threads: those that were used last, and one with its history. */

import { useSignal } from "@preact/signals";
import { api } from "../../api/client";
import { formatAgo } from "../../format";
import { Bones, Button, Empty } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { Problem } from "../../parts/Problem";
import { address, hrefOf, open } from "../../router";
import { now } from "../../state/clock";
import { texts } from "../../texts";
import { HistoryView } from "./HistoryView";

const words = texts.threads;

export function ThreadsView() {
  const id = address.value.path[1];
  return id ? <HistoryView key={id} id={id} /> : <ThreadList />;
}

function ThreadList() {
  const text = useSignal("");
  const prefix = text.value.trim();
  const [threads, again] = useLoad((signal) => api.threads(prefix, signal), [prefix], 10);
  const shown = threads.value.data;
  return (
    <div class="scroller">
      <header class="head">
        <h1>{words.title}</h1>
        <span class="mid">{words.recent}</span>
      </header>
      <form
        class="bar-line"
        onSubmit={(event) => {
          event.preventDefault();
          if (text.value.trim()) open(hrefOf(["threads", text.value.trim()]));
        }}
      >
        <input class="input slim wide" value={text.value} placeholder={words.id} aria-label={words.id} onInput={(event) => (text.value = event.currentTarget.value)} />
        <Button look="small" type="submit">
          {words.open}
        </Button>
      </form>
      <section class="sheet">
        {threads.value.error !== null && !shown ? (
          <Problem error={threads.value.error} onRetry={again} />
        ) : !shown ? (
          <Bones />
        ) : !shown.length ? (
          <Empty title={words.none}>
            <p>{words.noneHelp}</p>
          </Empty>
        ) : (
          <table class="plain">
            <thead>
              <tr>
                <th>{texts.run.facts.thread}</th>
                <th>{texts.start.graph}</th>
                <th>{words.runs}</th>
                <th>{texts.runs.columns.status}</th>
                <th>{words.changed}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((thread) => (
                <tr key={thread.threadId}>
                  <td class="mono cut">
                    <a href={hrefOf(["threads", thread.threadId])}>{thread.threadId}</a>
                  </td>
                  <td>{thread.graph}</td>
                  <td>
                    <a href={hrefOf(["runs"], { thread: thread.threadId })}>{thread.runCount}</a>
                  </td>
                  <td>
                    <Glyph status={thread.status} isSilent /> {texts.runStatus[thread.status]}
                  </td>
                  <td class="mid">{formatAgo(thread.changedAt, now.value)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
    </div>
  );
}
