/* The definition of the graph beside its drawing, with the line of the chosen node marked. */

import { useEffect, useRef } from "preact/hooks";
import type { Json } from "../../api/types";
import { texts } from "../../texts";
import type { RunStore } from "./store";

const words = texts.run.definition;

export function DefinitionTab({ store, node }: { store: RunStore; node: string | null }) {
  useEffect(() => void store.loadDefinition(), [store]);
  const definition = store.definition.value;
  const graph = store.graph.value;
  const source = definition?.definition;
  if (source !== undefined && source !== null) return <Code text={typeof source === "string" ? source : JSON.stringify(source, null, 2)} node={node} title={words.of(definition?.name ?? "", definition?.version ?? "")} />;
  if (!graph) return null;
  const schemas: [string, Json][] = [
    [words.input, graph.inputSchema],
    [words.state, graph.stateSchema],
    [words.output, graph.outputSchema],
  ];
  return (
    <div class="definition">
      <p class="block mid">{words.python}</p>
      {schemas.map(([title, schema]) => schema && <Code key={title} title={title} text={JSON.stringify(schema, null, 2)} node={null} />)}
    </div>
  );
}

function Code({ title, text, node }: { title: string; text: string; node: string | null }) {
  const lines = text.split("\n");
  const marked = node ? findLine(lines, node) : -1;
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.querySelector(".here")?.scrollIntoView({ block: "center" }), [marked]);
  return (
    <section>
      <h2 class="subhead">{title}</h2>
      <div class="code" ref={box}>
        {lines.map((line, index) => (
          <div key={index} class={index === marked ? "here" : ""}>
            <i>{index + 1}</i>
            <span>{line}</span>
          </div>
        ))}
      </div>
    </section>
  );
}

/** Return the line that names a node: as a key or a value of YAML or JSON. */
function findLine(lines: string[], node: string): number {
  const name = node.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const declared = new RegExp(`(name|id)["']?\\s*:\\s*["']?${name}["']?\\s*,?$`);
  const key = new RegExp(`^\\s*-?\\s*["']?${name}["']?\\s*:`);
  const at = lines.findIndex((line) => declared.test(line));
  return at >= 0 ? at : lines.findIndex((line) => key.test(line));
}
