/* A value of the state or of a step, key by key; long ones can be opened. */

import type { Json } from "../../../api/types";
import { describe, valueLines } from "../../../diff/sections";
import { Lines } from "../../../diff/DiffView";
import { CopyButton } from "../../../parts/controls";

export function ValueView({ title, value, none }: { title: string; value: Json | undefined; none: string }) {
  if (value === undefined || value === null) return <p class="block quiet">{none}</p>;
  const entries = typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [["", value] as [string, Json]];
  return (
    <>
      <div class="block tally">
        <span class="grow">{title}</span>
        <CopyButton text={JSON.stringify(value, null, 2)} />
      </div>
      {!entries.length && <p class="block quiet">{none}</p>}
      <div class="diff">
        {entries.map(([name, item]) => (
          <section class="dk" key={name}>
            {name && (
              <header>
                <span class="sign" />
                <code>{name}</code>
                <span class="note">{describe(item)}</span>
              </header>
            )}
            <Lines lines={valueLines(item, "same")} />
          </section>
        ))}
      </div>
    </>
  );
}
