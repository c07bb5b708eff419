/* Small controls that every view uses. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatCount } from "../format";
import { useKeys } from "../keys";
import { texts } from "../texts";
import { Icon, type IconName } from "./icons";

interface ButtonProps {
  children?: ComponentChildren;
  icon?: IconName;
  /** The look: `main` is filled, and a page has at most one. */
  look?: string;
  label?: string;
  keys?: string;
  onClick?: (event: MouseEvent) => void;
  isDisabled?: boolean;
  type?: "button" | "submit";
}

export function Button({ children, icon, look = "", label, keys, onClick, isDisabled = false, type = "button" }: ButtonProps) {
  const name = `btn ${look}${children ? "" : " icon"}`;
  return (
    <button type={type} class={name} aria-label={label} title={label} onClick={onClick} disabled={isDisabled}>
      {icon && <Icon name={icon} />}
      {children}
      {keys && <kbd class="only-wide">{keys}</kbd>}
    </button>
  );
}

/** A button that asks once more in place: the first click turns it, the second within 3 s performs. */
interface SureProps {
  children: ComponentChildren;
  sure: string;
  look?: string;
  keys?: string;
  id?: string;
  title?: string;
  onSure: () => void;
  isDisabled?: boolean;
}

/** Hears Escape while it is shown, before the view does. */
function OnEscape({ call }: { call: () => void }) {
  useKeys({ Escape: call });
  return null;
}

export function SureButton({ children, sure, look = "", keys, id, title, onSure, isDisabled = false }: SureProps) {
  const [isAsking, setAsking] = useState(false);
  useEffect(() => {
    if (!isAsking) return undefined;
    const timer = setTimeout(() => setAsking(false), 3000);
    return () => clearTimeout(timer);
  }, [isAsking]);
  const click = (): void => {
    setAsking(!isAsking);
    if (isAsking) onSure();
  };
  return (
    <button type="button" id={id} title={title} class={`btn ${look}${isAsking ? " danger" : ""}`} onClick={click} disabled={isDisabled}>
      {isAsking && <OnEscape call={() => setAsking(false)} />}
      {isAsking ? sure : children}
      {keys && !isAsking && <kbd class="only-wide">{keys}</kbd>}
    </button>
  );
}

export interface Choice<K extends string> {
  key: K;
  label: ComponentChildren;
}

/** A switch between a few ways to see the same thing. */
export function Segments<K extends string>({ choices, chosen, onChoose, label }: { choices: Choice<K>[]; chosen: K; onChoose: (key: K) => void; label: string }) {
  return (
    <span class="seg" role="group" aria-label={label}>
      {choices.map(({ key, label: text }) => (
        <button type="button" key={key} aria-pressed={key === chosen} onClick={() => onChoose(key)}>
          {text}
        </button>
      ))}
    </span>
  );
}

export interface TabChoice<K extends string> extends Choice<K> {
  count?: number | undefined;
  isEmpty?: boolean | undefined;
}

/** A bar of tabs: one stop for the tab key, arrows within. */
export function Tabs<K extends string>({ tabs, chosen, onChoose, label }: { tabs: TabChoice<K>[]; chosen: K; onChoose: (key: K) => void; label: string }) {
  const bar = useRef<HTMLDivElement>(null);
  const move = (event: JSX.TargetedKeyboardEvent<HTMLDivElement>): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.key === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    onChoose(next.key);
    bar.current?.querySelector<HTMLElement>(`[data-tab="${next.key}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={bar} onKeyDown={move}>
      {tabs.map(({ key, label: text, count, isEmpty }) => (
        <button
          type="button"
          key={key}
          role="tab"
          data-tab={key}
          class={isEmpty ? "none" : ""}
          aria-selected={key === chosen}
          tabIndex={key === chosen ? 0 : -1}
          onClick={() => onChoose(key)}
        >
          {text}
          {count ? <span class="count">{formatCount(count)}</span> : null}
        </button>
      ))}
    </div>
  );
}

export function CopyButton({ text, label = texts.copy }: { text: string; label?: string }) {
  const [isDone, setDone] = useState(false);
  const copy = (): void => {
    void navigator.clipboard?.writeText(text).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    });
  };
  return (
    <button type="button" class="btn icon bare small" aria-label={label} title={isDone ? texts.copied : label} onClick={copy}>
      {isDone ? <span class="s-completed">✓</span> : <Icon name="copy" />}
    </button>
  );
}

/** What would be here, and the one way to get it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Command({ text }: { text: string }) {
  return (
    <div class="cmd">
      <code>{text}</code>
      <CopyButton text={text} />
    </div>
  );
}

/** The shape of rows that are on their way; shown only if they take longer than a blink. */
export function Bones({ rows = 8 }: { rows?: number }) {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 200);
    return () => clearTimeout(timer);
  }, []);
  if (!isLate) return null;
  return (
    <div class="bones" aria-label={texts.loading} role="status">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row}>
          <span class="bone dot14" />
          <span class="bone w85" />
          <span class={`bone ${["w70", "w40", "w55"][row % 3]}`} />
          <span class="bone" />
          <span class="bone" />
        </div>
      ))}
    </div>
  );
}
