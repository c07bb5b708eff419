/* The page begins here: it finds out who is signed in, and shows the view of the address. */

import { useSignal } from "@preact/signals";
import { type ComponentType, render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Frame } from "./frame/Frame";
import { startKeys } from "./keys";
import { Bones } from "./parts/controls";
import { Problem } from "./parts/Problem";
import { ApiError } from "./api/errors";
import { address, page, startRouter } from "./router";
import { startClock } from "./state/clock";
import { isOffline } from "./state/connection";
import { session, startSession } from "./state/session";
import { startTheme } from "./state/theme";
import { texts } from "./texts";
import { RunsView } from "./views/runs/RunsView";

/** Views that are fetched when they are opened first. */
const LATER: Record<string, () => Promise<ComponentType>> = {
  run: async () => (await import("./views/run/RunView")).RunView,
  compare: async () => (await import("./views/compare/CompareView")).CompareView,
  inbox: async () => (await import("./views/inbox/InboxView")).InboxView,
  start: async () => (await import("./views/start/StartView")).StartView,
  threads: async () => (await import("./views/threads/ThreadsView")).ThreadsView,
  schedules: async () => (await import("./views/schedules/SchedulesView")).SchedulesView,
  workers: async () => (await import("./views/workers/WorkersView")).WorkersView,
  costs: async () => (await import("./views/costs/CostsView")).CostsView,
  problems: async () => (await import("./views/problems/ProblemsView")).ProblemsView,
  "sign-in": async () => (await import("./views/sign-in/SignInView")).SignInView,
};
const fetched = new Map<string, ComponentType>();

function Later({ name }: { name: string }) {
  const view = useSignal<ComponentType | null>(fetched.get(name) ?? null);
  const error = useSignal<unknown>(null);
  useEffect(() => {
    view.value = fetched.get(name) ?? null;
    error.value = null;
    if (view.value) return;
    LATER[name]?.().then(
      (found) => {
        fetched.set(name, found);
        view.value = () => null; // a component is a function: replace it, do not call it
        view.value = found;
      },
      (problem) => (error.value = problem),
    );
  }, [name]);
  const wasOffline = useRef(false);
  useEffect(() => {
    if (!error.value) return;
    if (isOffline.value) wasOffline.current = true;
    else if (wasOffline.current) location.reload(); // the server is there again
  }, [error.value, isOffline.value]);
  if (error.value) return <Problem error={new Error(texts.errors.reload)} onRetry={() => location.reload()} />;
  const View = view.value;
  return View ? <View /> : <Bones />;
}

function View() {
  const below = address.value.path[1];
  const name = page.value === "runs" && below ? (below === "compare" ? "compare" : "run") : page.value;
  document.title = `${texts.titles[name] ?? texts.brand} · ${texts.brand}`;
  if (name === "runs") return <RunsView />;
  if (name in LATER) return <Later key={name} name={name} />;
  return <Problem error={new Error(texts.errors.noPage)} />;
}

function Page() {
  if (page.value === "sign-in") return <View />;
  if (!session.value) return isOffline.value ? <Problem error={new ApiError(0, "UNREACHABLE", texts.errors.unreachable)} /> : null;
  return (
    <Frame>
      <View />
    </Frame>
  );
}

startTheme();
startRouter();
startKeys();
startClock();
void startSession();
const root = document.getElementById("page");
if (root) render(<Page />, root);
