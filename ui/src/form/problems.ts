/* Problems of a form: those that the API has found, by the path of their field, and the way to the first of them. */

import { ApiError } from "../api/errors";
import type { Field } from "./schema";
import type { Problems } from "./validate";

/** Return the problems of a request by the path of their field, as `validate` does. `root` is the part of the body that the
    form is for, such as `input`; what concerns other parts keeps its whole path. */
export function readProblems(error: unknown, root = ""): Problems {
  const problems: Problems = new Map();
  if (!(error instanceof ApiError)) return problems;
  for (const { path, message } of error.problems) {
    const whole = path.replace(/^body\.?/, "").replace(/\[(\d+)\]/g, ".$1");
    const inner = root && (whole === root || whole.startsWith(`${root}.`)) ? whole.slice(root.length + 1) : whole;
    if (!problems.has(inner)) problems.set(inner, message);
  }
  return problems;
}

/** Return the path of the field that shows a problem, or of the nearest one around it; null if no field does. */
export function shownAt(path: string, box: ParentNode | null): HTMLElement | null {
  for (let at = path; ; at = at.replace(/\.?[^.]*$/, "")) {
    const found = box?.querySelector<HTMLElement>(`[data-path="${CSS.escape(at)}"]`);
    if (found || !at) return found ?? null;
  }
}

/** Focus the first field with a problem, or the first text that is not JSON. Return whether there is one. */
export function focusFirst(problems: Problems, box: ParentNode | null): boolean {
  const broken = box?.querySelector<HTMLElement>("[data-broken]");
  if (!problems.size && !broken) return false;
  const [first = ""] = problems.keys();
  const field = problems.size ? shownAt(first, box) : null;
  const control = field?.querySelector<HTMLElement>("[aria-invalid=true]") ?? field?.querySelector<HTMLElement>(":is(input, textarea, select, button):not([disabled])") ?? broken;
  control?.focus();
  return true;
}

/** All problems on one line, for where a value is written as JSON. */
export function listProblems(problems: Problems): string | undefined {
  return [...problems].map(([path, message]) => (path ? `${path}: ${message}` : message)).join("; ") || undefined;
}

/** The name of the first field with a problem: by the schema, or as it stands on the page. */
export function nameOfFirst(problems: Problems, box: ParentNode | null, schema?: Field): string {
  const [first = ""] = problems.keys();
  const [name = ""] = first.split(".");
  const known = schema?.fields[name]?.label;
  if (known) return known;
  const field = shownAt(first, box);
  const label = field?.querySelector("label, .label")?.firstChild?.textContent;
  return label || field?.querySelector("[aria-label]")?.getAttribute("aria-label") || first;
}
