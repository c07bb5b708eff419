/* The version of a graph to run, if there are several. */

import type { Definition, GraphDescription } from "../../api/types";
import { formatMoment } from "../../format";
import { texts } from "../../texts";

const words = texts.start;

interface VersionFieldProps {
  graph: GraphDescription | null;
  versions: Definition[];
  chosen: string | null;
  /** The version of the run that is run again. */
  usedBy: string | null;
  onChoose: (id: string | null) => void;
}

/** The choice of a version. The code of a graph in Python exists in the newest one only. */
export function VersionField({ graph, versions, chosen, usedBy, onChoose }: VersionFieldProps) {
  const others = versions.filter((version) => version.id !== graph?.definitionId && version.kind !== "graph");
  if (!graph || !others.length) return null;
  return (
    <div class="field">
      <label for="version">{words.version}</label>
      <select class="input" id="version" value={chosen ?? ""} onChange={(event) => onChoose(event.currentTarget.value || null)}>
        <option value="">{words.newest(graph.version)}</option>
        {others.map((version) => (
          <option key={version.id} value={version.id}>
            {words.versionOf(version.version, formatMoment(version.createdAt), version.id === usedBy)}
          </option>
        ))}
      </select>
    </div>
  );
}
