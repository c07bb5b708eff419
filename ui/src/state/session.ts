/* Who is signed in, and what they may do. The key is sent once, to be exchanged for a cookie that scripts cannot read. */

import { signal } from "@preact/signals";
import { api, whenSignedOut } from "../api/client";
import { ApiError } from "../api/errors";
import type { Session } from "../api/types";
import { address, hrefOf, open } from "../router";

export const session = signal<Session | null>(null);

export function may(scope: string): boolean {
  return session.value?.scopes.includes(scope) ?? false; // with those that `admin` includes
}

export function workspaceName(): string {
  return session.value?.workspace ?? "";
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
