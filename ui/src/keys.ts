/* The keyboard. Single keys do nothing while something is typed into. Views say which keys they hear; `?` lists them all. */

import { useLayoutEffect } from "preact/hooks";

export type Keys = Record<string, (event: KeyboardEvent) => void>;
const listeners: Keys[] = [];
let prefix = "";
let prefixTimer: ReturnType<typeof setTimeout> | undefined;

function isTyped(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  if (!element?.matches) return false;
  return element.matches("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
}

/** Return whether Enter already means something for the element that has the focus. */
function isPressed(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return element?.matches?.("a, button, summary, input, [role=button], [role=treeitem], [role=option], [role=tab]") ?? false;
}

/** Return the name of a key with its modifiers, such as `j`, `?`, `Escape`, `Ctrl+Enter`, `g r`. */
function nameOf(event: KeyboardEvent): string {
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  return event.ctrlKey || event.metaKey ? `Ctrl+${name}` : name;
}

export function startKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.isComposing) return;
    const name = nameOf(event);
    if (isTyped(event.target) && name !== "Escape" && !name.startsWith("Ctrl+")) return;
    if (name === "Enter" && isPressed(event.target)) return;
    const names = prefix ? [`${prefix} ${name}`, name] : [name];
    clearTimeout(prefixTimer);
    prefix = "";
    for (const keys of [...listeners].reverse()) {
      for (const candidate of names) {
        const call = keys[candidate];
        if (!call) continue;
        event.preventDefault();
        call(event);
        return;
      }
    }
    if (name === "g") {
      prefix = "g";
      prefixTimer = setTimeout(() => (prefix = ""), 1200);
    }
  });
}

/** Hear keys while a component is shown. The component that was shown last hears them first. */
export function useKeys(keys: Keys): void {
  // Not useEffect: what is painted would not hear its keys until the next frame.
  useLayoutEffect(() => {
    listeners.push(keys);
    return () => void listeners.splice(listeners.indexOf(keys), 1);
  });
}
