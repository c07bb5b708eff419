/* What stands around a form that creates or changes something: the way back, a side, and a foot with its buttons. */

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { signal, useSignal } from "@preact/signals";
import { ApiError } from "../../api/errors";
import { focusFirst, nameOfFirst, readProblems, shownAt } from "../../form/problems";
import type { Problems } from "../../form/validate";
import { useKeys } from "../../keys";
import { Button, SureButton } from "../../parts/controls";
import { choose } from "../../router";
import { isOffline } from "../../state/connection";
import { attempt, say, sayError } from "../../state/toast";
import { texts } from "../../texts";

const words = texts.schedules;

/** What was saved last, so that its list can say what to do with it, such as to store a secret. */
export const justSaved = signal<unknown>(null);

export interface Editing {
  problems: Problems;
  /** Call after each change: what is wrong is then found again at once. */
  recheck: () => void;
}

interface EditorProps {
  title: string;
  isNew: boolean;
  check: () => Problems;
  save: () => Promise<unknown>;
  remove?: (() => Promise<unknown>) | undefined;
  side: ComponentChildren;
  children: (editing: Editing) => ComponentChildren;
}

export function closeEditor(): void {
  choose({ edit: null });
}

export function Editor({ title, isNew, check, save, remove, side, children }: EditorProps) {
  const box = useRef<HTMLFormElement>(null);
  const problems = useSignal<Problems>(new Map());
  const isBusy = useSignal(false);
  const submit = async (): Promise<void> => {
    if (isBusy.value || isOffline.value) return;
    problems.value = check();
    if (focusFirst(problems.value, box.current)) return;
    isBusy.value = true;
    try {
      justSaved.value = await save();
      say(words.saved);
      closeEditor();
    } catch (error) {
      problems.value = readProblems(error);
      setTimeout(() => focusFirst(problems.value, box.current));
      const isShown = [...problems.value.keys()].some((path) => path && shownAt(path, box.current));
      if (!(error instanceof ApiError) || !isShown) sayError(error);
    } finally {
      isBusy.value = false;
    }
  };
  const drop = async (): Promise<void> => {
    if (remove && (await attempt(remove, words.removed))) closeEditor();
  };
  useKeys({ "Ctrl+Enter": () => void submit(), Escape: closeEditor });
  const editing: Editing = { problems: problems.value, recheck: () => problems.value.size && setTimeout(() => (problems.value = check())) };
  return (
    <form
      class="editor"
      ref={box}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <div class="decide">
        <div class="form">
          <div class="row">
            <Button look="bare icon small" label={words.back} onClick={closeEditor} keys="">
              ←
            </Button>
            <h2 class="question grow">{title}</h2>
          </div>
          {children(editing)}
        </div>
        <aside class="side">{side}</aside>
      </div>
      <footer class="foot">
        {remove && (
          <SureButton look="tall" sure={words.sure} onSure={() => void drop()} isDisabled={isOffline.value}>
            <span class="s-failed">{words.remove}</span>
          </SureButton>
        )}
        <span class="grow s-failed" role="status">
          {problems.value.size > 0 && texts.form.toCorrect(problems.value.size, nameOfFirst(problems.value, box.current))}
        </span>
        <Button look="main tall" type="submit" keys="Ctrl Enter" isDisabled={isBusy.value || isOffline.value}>
          {isNew ? words.create : words.save}
        </Button>
      </footer>
    </form>
  );
}
