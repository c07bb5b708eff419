/* The line between the panes and the inspector, which can be dragged, and moved with the keyboard. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { texts } from "../../../texts";
import { NARROWEST, setWidth, USUAL, WIDEST, width, widthAfter } from "./width";

/** Where a drag began: the place of the pointer, and the width at that time. */
interface Drag {
  x: number;
  width: number;
}

export function Separator() {
  const drag = useSignal<Drag | null>(null);
  useSignalEffect(() => document.documentElement.style.setProperty("--inspector", `${width.value}px`));
  const press = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
    drag.value = { x: event.clientX, width: width.peek() };
  };
  const move = (event: PointerEvent): void => {
    if (drag.value) setWidth(drag.value.width + drag.value.x - event.clientX);
  };
  const key = (event: KeyboardEvent): void => {
    const next = event.key === "Enter" ? USUAL : widthAfter(event.key, event.shiftKey, width.peek());
    if (next === null) return;
    event.preventDefault();
    event.stopPropagation();
    setWidth(next);
  };
  return (
    <div
      class={`separator${drag.value ? " dragged" : ""}`}
      role="separator"
      tabIndex={0}
      aria-orientation="vertical"
      aria-controls="inspector"
      aria-label={texts.run.inspector.resize}
      aria-valuemin={NARROWEST}
      aria-valuemax={WIDEST}
      aria-valuenow={width.value}
      title={texts.run.inspector.resizeHelp}
      onPointerDown={press}
      onPointerMove={move}
      onPointerUp={() => (drag.value = null)}
      onPointerCancel={() => (drag.value = null)}
      onDblClick={() => setWidth(USUAL)}
      onKeyDown={key}
    />
  );
}
