/* Parts of a view that few look at: their code is fetched when they are shown first. */

import { type ComponentType, type FunctionComponent, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import { texts } from "../texts";
import { Problem } from "./Problem";

/** Return a component that fetches another one and shows it. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>): FunctionComponent<P> {
  let fetched: ComponentType<P> | null = null;
  return function Later(props: P) {
    const [isFetched, setFetched] = useState(fetched !== null);
    const [hasFailed, setFailed] = useState(false);
    useEffect(() => {
      if (fetched) return;
      load().then(
        (found) => {
          fetched = found;
          setFetched(true);
        },
        () => setFailed(true),
      );
    }, []);
    if (hasFailed) return <Problem error={new Error(texts.errors.reload)} onRetry={() => location.reload()} />;
    return isFetched && fetched ? h(fetched as ComponentType<object>, props) : null;
  };
}
