/* Threads: those of recent runs, and one with its history. */

import { useSignal } from "@preact/signals";
import { api } from "../../api/client";
import type { Run } from "../../api/types";
import { formatAgo } from "../../format";
import { Bones, Button, Empty } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { Problem } from "../../parts/Problem";
import { address, hrefOf, open } from "../../router";
import { now } from "../../state/clock";
import { texts } from "../../texts";
import { glyphOf } from "../runs/sentence";
import { HistoryView } from "./HistoryView";

const words = texts.threads;

export function ThreadsView() {
  const id = address.value.path[1];
  return id ? <HistoryView key={id} id={id} /> : <ThreadList />;
}

function ThreadList() {
  const text = useSignal("");
  const [runs, again] = useLoad((signal) => api.runs(new URLSearchParams({ pageSize: "100", brief: "true" }), signal), [], 10);
  const threads = new Map<string, Run[]>();
  for (const run of runs.value.data?.items ?? []) threads.set(run.threadId, [...(threads.get(run.threadId) ?? []), run]);
  const shown = [...threads].filter(([id, [run]]) => `${id} ${run?.graph}`.toLowerCase().includes(text.value.trim().toLowerCase()));
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
        {runs.value.error !== null && !runs.value.data ? (
          <Problem error={runs.value.error} onRetry={again} />
        ) : !runs.value.data ? (
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
                <th>{texts.runs.columns.started}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map(([id, [newest, ...others]]) => (
                <tr key={id}>
                  <td class="mono cut">
                    <a href={hrefOf(["threads", id])}>{id}</a>
                  </td>
                  <td>{newest?.graph}</td>
                  <td>
                    <a href={hrefOf(["runs"], { thread: id })}>{others.length + 1}</a>
                  </td>
                  <td>
                    {newest && (
                      <>
                        <Glyph status={glyphOf(newest)} isSilent /> {texts.runStatus[newest.status]}
                      </>
                    )}
                  </td>
                  <td class="mid">{newest && formatAgo(newest.createdAt, now.value)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
    </div>
  );
}
