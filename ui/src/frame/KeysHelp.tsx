/* All keys, on one sheet. */

import { useEffect, useRef } from "preact/hooks";
import { Button } from "../parts/controls";
import { texts } from "../texts";

export function KeysHelp({ onClose }: { onClose: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.querySelector("button")?.focus(), []);
  return (
    <div class="veil" onClick={(event) => event.target === event.currentTarget && onClose()}>
      <div class="finder help" role="dialog" aria-label={texts.keys.title} ref={box}>
        <header class="row">
          <h2 class="grow">{texts.keys.title}</h2>
          <Button look="bare small" icon="close" label={texts.close} onClick={onClose} />
        </header>
        <div class="keygroups">
          {texts.keys.groups.map((group) => (
            <section key={group.title}>
              <h3>{group.title}</h3>
              <dl>
                {group.keys.map(([keys, what]) => (
                  <div key={keys}>
                    <dt>
                      {keys.split(" ").map((key) => (
                        <kbd key={key}>{key}</kbd>
                      ))}
                    </dt>
                    <dd>{what}</dd>
                  </div>
                ))}
              </dl>
            </section>
          ))}
        </div>
      </div>
    </div>
  );
}
