/* Components that are rendered again only if one of their properties has changed. */

import { Component, type ComponentChild, type FunctionComponent, h } from "preact";

export function memo<P extends object>(Inner: (props: P) => ComponentChild): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const before = this.props as Record<string, unknown>;
      const after = next as Record<string, unknown>;
      return Object.keys(after).some((name) => after[name] !== before[name]);
    }
    override render(): ComponentChild {
      return h(Inner as FunctionComponent<P>, this.props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
