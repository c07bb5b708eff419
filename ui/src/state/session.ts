/* Who is signed in, and what they may do. The key is sent once, to be exchanged for a cookie that scripts cannot read. */

import { signal } from "@preact/signals";
import { api, whenSignedOut } from "../api/client";
import { ApiError } from "../api/errors";
import type { Session } from "../api/types";
import { address, hrefOf, open } from "../router";

/** A server that has no session yet lets everybody do everything: an address on loopback without keys. */
const OPEN: Session = { authenticated: true, auth: "none", scopes: ["admin", "workers:read", "workers:manage"], workspace: "default" };

export const session = signal<Session | null>(null);

export function may(scope: string): boolean {
  const scopes = session.value?.scopes ?? [];
  const isShared = scope.startsWith("workers:") || scope === "metrics:read"; // these belong to no workspace
  return scopes.includes(scope) || (!isShared && scopes.includes("admin"));
}

export function workspaceName(): string {
  const workspace = session.value?.workspace;
  if (typeof workspace === "string") return workspace;
  if (workspace && typeof workspace === "object" && !Array.isArray(workspace)) return String(workspace.slug ?? workspace.name ?? workspace.id ?? "");
  return "";
}

export async function startSession(): Promise<void> {
  whenSignedOut(() => {
    session.value = null;
    if (address.peek().path[0] === "sign-in") return;
    const here = location.pathname + location.search;
    open(hrefOf(["sign-in"], { to: here === "/ui/" ? null : here }));
  });
  for (;;) {
    try {
      const found = await api.session();
      if (found.authenticated) session.value = found;
      else if (address.peek().path[0] !== "sign-in") open(hrefOf(["sign-in"], { to: location.pathname + location.search }));
      return;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) session.value = OPEN;
      if (!(error instanceof ApiError) || !error.isPassing) return;
      await new Promise((resolve) => setTimeout(resolve, 2000)); // the server is starting, or was stopped
    }
  }
}

export async function signIn(key: string): Promise<void> {
  session.value = await api.signIn(key);
  const to = address.peek().query.get("to");
  open(to?.startsWith("/ui/") ? to : hrefOf(["runs"]));
}

export async function signOut(): Promise<void> {
  await api.signOut();
  session.value = null;
  open(hrefOf(["sign-in"]));
}
