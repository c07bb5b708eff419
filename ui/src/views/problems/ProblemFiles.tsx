/* Files that are being edited and cannot be loaded, with the problems at their lines. */

import { useSignal } from "@preact/signals";
import type { LoadProblem } from "../../api/types";
import { formatTime } from "../../format";
import { Button } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { filesOf, type ProblemFile, piecesOf, reload } from "../../state/reload";
import { texts } from "../../texts";

const words = texts.problems;
const AROUND = 6;

export function ProblemFiles() {
  const found = reload.value;
  if (!found?.failedAt) return null;
  const files = filesOf(found);
  return (
    <div class="problems" role="region" aria-label={words.title} aria-live="polite">
      {files.map((file) => (
        <OneFile key={file.name} file={file} servedSince={found.loadedAt} />
      ))}
      {!files.length && (
        <div class="banner bad">
          <Glyph status="failed" isSilent />
          <p>{words.unknown}</p>
        </div>
      )}
    </div>
  );
}

function OneFile({ file, servedSince }: { file: ProblemFile; servedSince: string | null }) {
  const isWhole = useSignal(false);
  const unplaced = file.problems.filter((problem) => problem.line === null || file.text === null);
  const pieces = file.text === null ? [] : piecesOf(file.text, file.problems, AROUND, isWhole.value);
  return (
    <section>
      <header class="banner bad">
        <Glyph status="failed" isSilent />
        <h2 class="grow">{words.cannotRun(file.name || words.project, servedSince ? formatTime(servedSince).slice(0, 5) : "")}</h2>
        {pieces.some((piece) => "folded" in piece) && (
          <Button look="small" onClick={() => (isWhole.value = true)}>
            {words.whole}
          </Button>
        )}
      </header>
      <div class="code">
        {unplaced.map((problem, index) => (
          <Said key={index} problem={problem} />
        ))}
        {pieces.map((piece, index) =>
          "folded" in piece ? (
            <button type="button" class="foldline" key={index} onClick={() => (isWhole.value = true)}>
              {words.folded(piece.folded)}
            </button>
          ) : (
            piece.lines.map((line) => (
              <>
                <div key={line.number} class={line.problems.length ? "hit" : ""}>
                  <i>{line.number}</i>
                  <span>{line.text || " "}</span>
                </div>
                {line.problems.map((problem, at) => (
                  <Said key={`${line.number} ${at}`} problem={problem} />
                ))}
              </>
            ))
          ),
        )}
      </div>
    </section>
  );
}

/** What is wrong, below its line. */
function Said({ problem }: { problem: LoadProblem }) {
  const where = problem.line === null ? "" : words.at(problem.line, problem.column);
  return (
    <p class="said">
      {problem.message} {problem.suggestion} <span class="quiet">{[where, problem.code].filter(Boolean).join(" · ")}</span>
    </p>
  );
}
