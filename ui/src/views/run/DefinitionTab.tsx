/* The definition of the graph beside its drawing, with the line of the chosen node marked. */

import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Json } from "../../api/types";
import { hasProblems } from "../../state/reload";
import { texts } from "../../texts";
import { lineOf } from "./source-lines";
import type { RunStore } from "./store";

const words = texts.run.definition;

/** `nodes` are what is chosen: a node of the drawing, which may not have run yet, or else the step. */
export function DefinitionTab({ store, nodes }: { store: RunStore; nodes: (string | null)[] }) {
  useEffect(() => void store.loadSource(), [store]);
  const source = store.source.value;
  const Problems = useProblemFiles();
  if (hasProblems.value) return Problems && <Problems />;
  const graph = store.graph.value;
  if (source === null) return null;
  if (source !== "unknown") return <Code text={source.text} line={lineOf(source, nodes)} title={source.file ?? `${graph?.name ?? ""} ${graph?.version ?? ""}`} />;
  if (!graph) return null;
  const schemas: [string, Json][] = [
    [words.input, graph.inputSchema],
    [words.state, graph.stateSchema],
    [words.output, graph.outputSchema],
  ];
  return (
    <div class="definition">
      <p class="block mid">{words.unknown}</p>
      {schemas.map(([title, schema]) => schema && <Code key={title} title={title} text={JSON.stringify(schema, null, 2)} line={null} />)}
    </div>
  );
}

function Code({ title, text, line }: { title: string; text: string; line: number | null }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.querySelector(".here")?.scrollIntoView({ block: "center" }), [line]);
  return (
    <section>
      <h2 class="subhead mono">{title}</h2>
      <div class="code" ref={box}>
        {text.split("\n").map((row, index) => (
          <div key={index} class={index + 1 === line ? "here" : ""}>
            <i>{index + 1}</i>
            <span>{row}</span>
          </div>
        ))}
      </div>
    </section>
  );
}

/** The view of files with problems, which is fetched when there are any. */
function useProblemFiles(): ComponentType | null {
  const [found, setFound] = useState<ComponentType | null>(null);
  useEffect(() => {
    if (hasProblems.value && !found) void import("../problems/ProblemFiles").then((module) => setFound(() => module.ProblemFiles));
  }, [hasProblems.value]);
  return found;
}
