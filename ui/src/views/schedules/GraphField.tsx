/* The graph that something starts: one of those that are served. */

import { api } from "../../api/client";
import { FieldFrame } from "../../form/Fields";
import { useLoad } from "../../parts/load";
import { may } from "../../state/session";
import { texts } from "../../texts";

const words = texts.schedules;

interface GraphFieldProps {
  graph: string;
  /** True if it cannot be changed any more. */
  isFixed: boolean;
  help: string;
  problem: string | undefined;
  onChange: (graph: string) => void;
}

export function GraphField({ graph, isFixed, help, problem, onChange }: GraphFieldProps) {
  const [loaded] = useLoad((signal) => (may("definitions:read") ? api.graphs(signal) : Promise.resolve([])), []);
  const names = [...new Set([...(loaded.value.data ?? []).map(({ name }) => name), ...(graph ? [graph] : [])])];
  return (
    <FieldFrame id="graph" path="graph" label={words.graph} help={isFixed ? words.graphFixed : help} problem={problem}>
      {may("definitions:read") || isFixed ? (
        <select class="input" id="graph" value={graph} disabled={isFixed} aria-required aria-describedby="graph-help" onChange={(event) => onChange(event.currentTarget.value)}>
          {!graph && <option value="">{texts.form.choose}</option>}
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      ) : (
        <input class="input" id="graph" value={graph} aria-required aria-describedby="graph-help" onInput={(event) => onChange(event.currentTarget.value)} />
      )}
    </FieldFrame>
  );
}
