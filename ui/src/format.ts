/* Times, numbers and values as short text. */

import type { Json } from "./api/types";

const THIN = "\u202f";

/** 41260 as `41 260`, with a narrow space that does not break. */
export function formatCount(count: number): string {
  const text = Math.abs(count) < 10_000 && Math.abs(count) < 1000 ? String(count) : String(count).replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
  return text;
}

/** A duration in seconds: `0.4 s`, `12.3 s`, `3:12`, `2:03:04`, `3 d 4 h`. */
export function formatDuration(seconds: number): string {
  if (seconds < 0.0995) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}:${pad(whole % 60)}`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)}:${pad(Math.floor((whole % 3600) / 60))}:${pad(whole % 60)}`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** A duration as a clock counts it, for what is still running: `0:07`, `3:12`. */
export function formatClock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  return whole < 3600 ? `${Math.floor(whole / 60)}:${pad(whole % 60)}` : formatDuration(whole);
}

function pad(number: number): string {
  return String(number).padStart(2, "0");
}

export function formatAgo(at: string, now: number): string {
  const seconds = Math.max(0, (now - Date.parse(at)) / 1000);
  if (seconds < 45) return seconds < 5 ? "just now" : `${Math.floor(seconds)} s ago`;
  if (seconds < 3570) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return formatDay(at);
}

/** How long ago, without the word: `6 min`. */
export function formatAge(at: string, now: number): string {
  return formatAgo(at, now).replace(" ago", "");
}

/** The time of day: `14:02:11`. */
export function formatTime(at: string, hasFraction = false): string {
  const date = new Date(at);
  const text = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return hasFraction ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}

export function formatDay(at: string): string {
  return new Date(at).toLocaleDateString(undefined, { weekday: "short", day: "numeric", month: "short" });
}

export function formatMoment(at: string): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** US dollars: `$0.84`, `$0.0003`, and a dash for none. */
export function formatCost(usd: number): string {
  if (!usd) return "–";
  if (usd < 0.01) return `$${Number(usd.toPrecision(2))}`;
  return `$${usd.toFixed(2).replace(/\B(?=(\d{3})+(?!\d))/g, THIN)}`;
}

/** A size: `812 B`, `3.4 kB`, `12 MB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let [size, unit] = [bytes, 0];
  while (size >= 999.5 && unit < units.length - 1) [size, unit] = [size / 1000, unit + 1];
  return `${unit && size < 9.95 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

export function secondsBetween(from: string, to: string | number): number {
  return ((typeof to === "number" ? to : Date.parse(to)) - Date.parse(from)) / 1000;
}

/** A value on one line of at most so many characters. */
export function formatValue(value: Json | undefined, limit = 120): string {
  if (value === undefined) return "";
  const text = typeof value === "string" ? value : toLine(value);
  const line = text.replace(/\s+/g, " ");
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}

/** JSON on one line, with spaces where a person would put them. */
export function toLine(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(toLine).join(", ")}]`;
  if (value && typeof value === "object") {
    return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${toLine(item)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

/** The id of a run as lists show it: its first and last characters differ most. */
export function shortId(id: string): string {
  const [kind, rest] = id.includes("_") ? (id.split(/_(.*)/s) as [string, string]) : ["", id];
  return rest.length > 14 ? `${kind ? `${kind}_` : ""}${rest.slice(4, 12)}` : id;
}

/** Cut the middle out of a long name. */
export function cutMiddle(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const half = (limit - 1) / 2;
  return `${text.slice(0, Math.ceil(half))}…${text.slice(-Math.floor(half))}`;
}
