/* What stands around every view: the bar at the top with links, find and the state of the connection; tabs at the bottom of
   narrow screens; the banner of a lost connection; messages. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { Button } from "../parts/controls";
import { Glyph } from "../parts/glyphs";
import { Icon, type IconName, Mark, Patterns } from "../parts/icons";
import { hrefOf, open, page } from "../router";
import { isOffline, staleFor } from "../state/connection";
import { startFeed } from "../state/feed";
import { reload, startReload } from "../state/reload";
import { may, session, signOut, workspaceName } from "../state/session";
import { switchTheme, theme } from "../state/theme";
import { attempt, close, hold, toast } from "../state/toast";
import { answerable, startWaits } from "../state/waits";
import { useKeys } from "../keys";
import { texts } from "../texts";
import { formatClock } from "../format";
import { Find } from "./Find";
import { KeysHelp } from "./KeysHelp";

interface Place {
  key: string;
  label: string;
  icon: IconName;
  scope: string;
}

const PLACES: Place[] = [
  { key: "runs", label: texts.nav.runs, icon: "runs", scope: "runs:read" },
  { key: "inbox", label: texts.nav.inbox, icon: "inbox", scope: "runs:read" },
  { key: "start", label: texts.nav.start, icon: "play", scope: "runs:write" },
  { key: "threads", label: texts.nav.threads, icon: "threads", scope: "threads:read" },
  { key: "schedules", label: texts.nav.schedules, icon: "clock", scope: "schedules:manage" },
  { key: "workers", label: texts.nav.workers, icon: "worker", scope: "workers:read" },
  { key: "costs", label: texts.nav.costs, icon: "cost", scope: "runs:read" },
];

/** Follow the workspace, and its open waits, while somebody is signed in. */
function useWorkspace(): void {
  useEffect(() => {
    const controller = new AbortController();
    startFeed(controller.signal);
    startWaits(controller.signal);
    if (may("definitions:read")) startReload(controller.signal);
    return () => controller.abort();
  }, []);
}

export function Frame({ children }: { children: ComponentChildren }) {
  const isFinding = useSignal(false);
  const isHelping = useSignal(false);
  const isMore = useSignal(false);
  useWorkspace();
  const questions = answerable.value.length;
  const go = (key: string) => () => open(hrefOf([key]));
  useKeys({
    "/": () => (isFinding.value = true),
    "?": () => (isHelping.value = !isHelping.value),
    n: go("start"),
    t: switchTheme,
    "g r": go("runs"),
    "g i": go("inbox"),
    "g s": go("start"),
    "g t": go("threads"),
    Escape: () => {
      isFinding.value = isHelping.value = isMore.value = false;
    },
  });
  const places = PLACES.filter((place) => session.value && may(place.scope));
  const here = (key: string) => (page.value === key ? { "aria-current": "page" as const } : {});
  const badge = (key: string) => (key === "inbox" && questions ? <span class="count warm">{questions}</span> : null);
  return (
    <>
      <Patterns />
      <a class="skip" href="#main">{texts.skip}</a>
      <header class="top">
        <a class="brand" href={hrefOf(["runs"])} aria-label={texts.brandLabel}>
          <Mark />
          <span>{texts.brand}</span>
        </a>
        <nav class="nav" aria-label={texts.nav.main}>
          {places.map(({ key, label }) => (
            <a key={key} href={hrefOf([key])} {...here(key)}>
              {label}
              {badge(key)}
            </a>
          ))}
        </nav>
        <span class="grow" />
        <button type="button" class="find" onClick={() => (isFinding.value = true)}>
          <Icon name="find" />
          <span class="grow cut">{texts.find.label}</span>
          <kbd>/</kbd>
        </button>
        <Connection />
        <Workspace />
        <Button look="bare" icon={theme.value === "dark" ? "sun" : "moon"} label={texts.theme} onClick={switchTheme} />
      </header>
      {isOffline.value && (
        <div class="banner" role="status">
          <Glyph status="timer" />
          <span>{texts.connection.stale(formatClock(staleFor.value ?? 0))}</span>
        </div>
      )}
      <EditedFiles />
      <main class={`page${isOffline.value ? " stale" : ""}`} id="main">
        {children}
      </main>
      {isMore.value && (
        <nav class="morebox" aria-label={texts.nav.more} onClick={() => (isMore.value = false)}>
          {places.slice(4).map(({ key, label, icon }) => (
            <a key={key} href={hrefOf([key])} {...here(key)}>
              <Icon name={icon} />
              {label}
            </a>
          ))}
          <a href="/docs" target="_blank">
            <Icon name="graph" />
            {texts.nav.docs}
          </a>
          {session.value?.keyRequired && (
            <Button look="bare" icon="close" onClick={() => void attempt(signOut)}>
              {texts.signIn.out}
            </Button>
          )}
        </nav>
      )}
      <nav class="tabbar" aria-label={texts.nav.main}>
        {places.slice(0, 4).map(({ key, label, icon }) => (
          <a key={key} href={hrefOf([key])} {...here(key)}>
            <Icon name={icon} />
            {label}
            {badge(key)}
          </a>
        ))}
        <button type="button" aria-expanded={isMore.value} onClick={() => (isMore.value = !isMore.value)}>
          <Icon name="more" />
          {texts.nav.more}
        </button>
      </nav>
      {isFinding.value && <Find onClose={() => (isFinding.value = false)} />}
      {isHelping.value && <KeysHelp onClose={() => (isHelping.value = false)} />}
      <Message />
    </>
  );
}

/** Says on every page that a file which is being edited has problems, except where they are shown. */
function EditedFiles() {
  const found = reload.value;
  if (!found?.failedAt || page.value === "problems") return null;
  const names = [...new Set(found.problems.map((problem) => problem.file).filter(Boolean))].join(", ");
  return (
    <div class="banner bad" role="status">
      <Glyph status="failed" isSilent />
      <span class="grow">{found.problems.length ? texts.problems.banner(names || texts.problems.project, found.problems.length) : texts.problems.bannerUnknown}</span>
      <a class="btn small" href={hrefOf(["problems"])}>
        {texts.problems.show}
      </a>
    </div>
  );
}

function Connection() {
  const isOff = isOffline.value;
  return (
    <span class={`live${isOff ? " off" : ""}`} role="status">
      {isOff ? texts.connection.off(formatClock(staleFor.value ?? 0)) : texts.connection.live}
    </span>
  );
}

function Workspace() {
  const name = workspaceName();
  if (!session.value?.keyRequired) return name ? <span class="workspace only-wide">{name}</span> : null;
  return (
    <Button look="bare only-wide" label={name ? `${name}: ${texts.signIn.out}` : texts.signIn.out} onClick={() => void attempt(signOut)}>
      {name || texts.signIn.out}
    </Button>
  );
}

function Message() {
  const message = toast.value;
  if (!message) return null;
  return (
    <div class="toast float" role={message.isError ? "alert" : "status"} onMouseEnter={hold} onFocusIn={hold}>
      <Glyph status={message.isError ? "failed" : "completed"} isSilent />
      <span class="grow">{message.text}</span>
      {message.action && (
        <Button look="small" onClick={message.action.run}>
          {message.action.label}
        </Button>
      )}
      <Button look="bare small" icon="close" label={texts.close} onClick={close} />
    </div>
  );
}
