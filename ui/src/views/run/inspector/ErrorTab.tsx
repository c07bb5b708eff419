/* What went wrong: the error, what a retry does, the attempts, and the state at the time. */

import type { Json, JsonMap, Run, RunError } from "../../../api/types";
import { formatDuration, formatTime, formatValue } from "../../../format";
import { CopyButton } from "../../../parts/controls";
import { Glyph } from "../../../parts/glyphs";
import { texts } from "../../../texts";
import type { Visit } from "../model";

const words = texts.run;

export function ErrorTab({ visit, run, state }: { visit: Visit; run: Run; state: JsonMap }) {
  const error = errorOf(visit, run);
  const attempts = visit.tasks.filter((task) => task.status !== "cancelled").flatMap((task) => task.attempts.map((attempt) => ({ attempt, task }))).filter(({ attempt, task }) => attempt.error || task.attempts.some((each) => each.error));
  if (!error && !attempts.length) return <p class="block quiet">{words.inspector.noError}</p>;
  const trace = error ? traceOf(error) : null;
  return (
    <>
      {error && (
        <div class="oops">
          <div class="row">
            <h3 class="grow">{error.code ?? texts.status.failed}</h3>
            <CopyButton text={JSON.stringify(error, null, 2)} />
          </div>
          <p>{withoutCode(error)}</p>
          {run.status === "failed" && <p class="quiet">{words.error.retryHelp}</p>}
        </div>
      )}
      {attempts.slice(0, 100).map(({ attempt, task }, index) => (
        <div class="att" key={index}>
          <span class="n">{visit.tasks.length > 1 ? task.step.position + 1 : attempt.number}</span>
          <Glyph status={attempt.error ? "failed" : attempt.endedAt ? "completed" : "running"} />
          <span class="mid">{formatTime(new Date(attempt.startedAt).toISOString())}</span>
          <span class="cut" title={attempt.error?.message}>
            {attempt.error ? withoutCode(attempt.error) : texts.status[attempt.endedAt ? "completed" : "running"]}
          </span>
          <span class="mid">{attempt.endedAt ? formatDuration((attempt.endedAt - attempt.startedAt) / 1000) : ""}</span>
        </div>
      ))}
      {trace && <Trace text={trace} />}
      {Object.keys(state).length > 0 && (
        <div class="block">
          <h3>{words.inspector.stateThen}</h3>
          <dl class="kv">
            {Object.entries(state).map(([name, value]) => [<dt class="mono cut">{name}</dt>, <dd class="mono cut">{formatValue(value, 160)}</dd>])}
          </dl>
        </div>
      )}
    </>
  );
}

function errorOf(visit: Visit, run: Run): RunError | null {
  const own = visit.tasks.map((task) => task.step.error ?? task.attempts.findLast((attempt) => attempt.error)?.error).filter((error) => error !== null && error !== undefined);
  const telling = own.find((error) => error.code !== "STOPPED") ?? own[0] ?? null;
  return run.error && run.error.step === visit.name && visit.status === "failed" ? { ...telling, ...run.error } : telling;
}

function withoutCode(error: RunError): string {
  return error.code && error.message.startsWith(`${error.code}: `) ? error.message.slice(error.code.length + 2) : error.message;
}

function traceOf(error: RunError): string | null {
  if (error.traceback) return error.traceback;
  const details: Json = error.details ?? null;
  if (details && typeof details === "object" && !Array.isArray(details) && typeof details.traceback === "string") return details.traceback;
  return details === null ? null : JSON.stringify(details, null, 2);
}

/** A trace with the lines of the user's own code marked: the last frame that is not in a library. */
function Trace({ text }: { text: string }) {
  const lines = text.split("\n");
  const own = lines.findLastIndex((line) => /^\s*File "/.test(line) && !/site-packages|\/lib\/python|statewright\//.test(line));
  return (
    <pre class="trace">
      {lines.map((line, index) => [index === own + 1 && own >= 0 ? <mark>{line}</mark> : index === lines.length - 1 ? <b>{line}</b> : line, "\n"])}
    </pre>
  );
}
