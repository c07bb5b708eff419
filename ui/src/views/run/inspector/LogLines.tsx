/* The lines that a step has logged and printed. */

import type { LogLine } from "../../../api/types";
import { formatTime } from "../../../format";

const MOST = 500;

export function LogLines({ lines, none }: { lines: LogLine[]; none: string }) {
  if (!lines.length) return <p class="block quiet">{none}</p>;
  return (
    <div class="logs">
      {lines.slice(-MOST).map((line, index) => {
        const level = (line.level ?? line.stream).toUpperCase().slice(0, 6);
        return (
          <div key={index} class={`log${/ERROR|CRITIC|STDERR/.test(level) ? " err" : ""}`}>
            <i title={line.at}>{formatTime(line.at, true).slice(3)}</i>
            <i>{level}</i>
            <span>{line.message}</span>
          </div>
        );
      })}
    </div>
  );
}
