/* What can go wrong with a request, as one kind of error. */

import type { Json } from "./types";

/** An error of the API, or of the way to it: then `status` is 0. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: Json = null,
    readonly requestId: string | null = null,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
    this.name = "ApiError";
  }

  /** True if the server could not be reached, or is not ready: trying again may help. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }

  /** True if somebody has to sign in first. */
  get asksForKey(): boolean {
    return this.status === 401;
  }

  /** The problems of a request by the path of their field. */
  get problems(): { path: string; message: string }[] {
    const details = this.details && typeof this.details === "object" && !Array.isArray(this.details) ? this.details : {};
    const found = details.problems;
    if (!Array.isArray(found)) return typeof details.field === "string" ? [{ path: details.field, message: this.message }] : [];
    return found.map((problem) => {
      if (problem && typeof problem === "object" && !Array.isArray(problem)) {
        return { path: String(problem.path ?? ""), message: String(problem.message ?? "") };
      }
      return { path: "", message: String(problem) };
    });
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
