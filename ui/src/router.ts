/* Addresses. Everything that can be seen has one: a path below `/ui/` names the page, the query says what is chosen on it.
   Choosing replaces the entry of the browser's history, opening a page adds one. */

import { computed, signal } from "@preact/signals";

const BASE = "/ui";

export interface Address {
  /** The parts of the path below `/ui/`, decoded. */
  path: string[];
  query: URLSearchParams;
}

export function readAddress(pathname: string, search: string): Address {
  const below = pathname.startsWith(BASE) ? pathname.slice(BASE.length) : pathname;
  return { path: below.split("/").filter(Boolean).map(decode), query: new URLSearchParams(search) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray percent sign in an address that was typed by hand
  }
}

/** Return the href of a page. Entries of the query that are undefined, null or empty are left out. */
export function hrefOf(path: string[], query: Record<string, string | string[] | null | undefined> = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) if (item) parameters.append(name, item);
  }
  return toHref(path, parameters);
}

function toHref(path: string[], query: URLSearchParams): string {
  const text = query.toString();
  return `${BASE}/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

const isBrowser = typeof location !== "undefined";
export const address = signal<Address>(isBrowser ? readAddress(location.pathname, location.search) : readAddress("", ""));
export const page = computed(() => address.value.path[0] ?? "runs");

function follow(): void {
  address.value = readAddress(location.pathname, location.search);
}

/** Open a page, which adds an entry to the browser's history. The entry keeps from where it was opened. */
export function open(href: string): void {
  history.pushState({ from: location.pathname + location.search }, "", href);
  follow();
  window.scrollTo(0, 0);
}

/** Choose something on the current page: set entries of the query; null removes one. */
export function choose(changes: Record<string, string | string[] | null>, adds = false): void {
  const query = new URLSearchParams(address.value.query);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const item of Array.isArray(value) ? value : [value]) if (item) query.append(name, item);
  }
  const href = toHref(address.value.path, query);
  if (adds) history.pushState(null, "", href);
  else history.replaceState(null, "", href);
  follow();
}

/** Follow plain clicks on links within the page without loading it again. */
export function startRouter(): void {
  window.addEventListener("popstate", follow);
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (link.pathname !== BASE && !link.pathname.startsWith(`${BASE}/`)) return;
    event.preventDefault();
    if (link.href !== location.href) open(link.pathname + link.search);
  });
}
