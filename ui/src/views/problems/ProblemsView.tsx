/* The page of problems of files that are being edited. It goes back by itself when there are none. */

import { useEffect } from "preact/hooks";
import { Bones } from "../../parts/controls";
import { hrefOf, open } from "../../router";
import { hasProblems, reload } from "../../state/reload";
import { texts } from "../../texts";
import { ProblemFiles } from "./ProblemFiles";

export function ProblemsView() {
  const isOver = reload.value !== null && !hasProblems.value;
  const from = history.state as { from?: string } | null;
  useEffect(() => {
    if (isOver) open(from?.from ?? hrefOf(["start"]));
  }, [isOver]);
  if (!reload.value || isOver) return <Bones />;
  return (
    <div class="scroller">
      <header class="head">
        <h1>{texts.problems.title}</h1>
      </header>
      <section class="sheet">
        <ProblemFiles />
      </section>
    </div>
  );
}
