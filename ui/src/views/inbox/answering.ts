/* Answering a question: what is typed, what is wrong with it, and how it is sent. The inbox and the playground share it. */

import { type Signal, useSignal } from "@preact/signals";
import { api } from "../../api/client";
import type { Json, JsonMap, Wait } from "../../api/types";
import { focusFirst, readProblems } from "../../form/problems";
import { beginningOf, defaultOf, type Field } from "../../form/schema";
import { type Problems, validate } from "../../form/validate";
import { isOffline } from "../../state/connection";
import { may } from "../../state/session";
import { say, sayError } from "../../state/toast";
import { loadWaits } from "../../state/waits";
import { texts } from "../../texts";
import { contentOf, fieldOf, type Kind, kindOf } from "./questions";

const NAME = "statewright.name";

export interface Answering {
  kind: Kind;
  field: Field;
  content: Json;
  value: Signal<Json | undefined>;
  problems: Signal<Problems>;
  by: Signal<string>;
  isBusy: Signal<boolean>;
  mayAnswer: boolean;
  isDisabled: boolean;
  isEdited: boolean;
  change: (next: Json | undefined) => void;
  /** Send what was typed, or go to what is wrong with it. */
  send: () => void;
  /** Send this answer, whatever was typed. */
  sendValue: (value: Json) => void;
  decide: (decision: "approved" | "rejected" | "edited") => void;
}

/** `box` is where the form stands, so that a wrong field can be focused. */
export function useAnswering(wait: Wait, box: () => ParentNode | null, onDone: () => void): Answering {
  const kind = kindOf(wait);
  const field = fieldOf(wait);
  const content = contentOf(wait);
  const value = useSignal<Json | undefined>(kind === "approval" ? content : (defaultOf(field) ?? (field.kind === "group" || kind === "event" ? beginningOf(field) ?? {} : undefined)));
  const problems = useSignal<Problems>(new Map());
  const by = useSignal(localStorage.getItem(NAME) ?? "");
  const isBusy = useSignal(false);
  const mayAnswer = (kind === "approval" || may("runs:write")) && (kind === "question" || kind === "event" || may("approvals:decide"));
  const isEdited = kind === "approval" && JSON.stringify(value.value) !== JSON.stringify(content);

  const perform = async (call: () => Promise<unknown>): Promise<void> => {
    if (isBusy.value || !mayAnswer || isOffline.value) return;
    isBusy.value = true;
    try {
      await call();
      say(texts.inbox.sent);
      await loadWaits().catch(() => undefined);
      onDone();
    } catch (error) {
      problems.value = readProblems(error, `answers.${wait.id}`);
      sayError(error);
      await loadWaits().catch(() => undefined);
    } finally {
      isBusy.value = false;
    }
  };
  const decide = (decision: "approved" | "rejected" | "edited"): void => {
    const name = by.value.trim();
    if (name) localStorage.setItem(NAME, name);
    const body = { decision, ...(decision === "edited" ? { editedContent: value.value ?? null } : {}), ...(name ? { decidedBy: name } : {}) };
    void perform(() => api.decide(wait.id, body));
  };
  const sendValue = (answer: Json): void => {
    void perform(() => (wait.kind === "event" ? api.signal(wait.workflowRunId, wait.signalType ?? "", answer as JsonMap) : api.answer(wait.workflowRunId, { [wait.id]: answer })));
  };
  const send = (): void => {
    if (!mayAnswer || isOffline.value) return;
    problems.value = kind === "approval" ? new Map() : validate(field, value.value);
    if (focusFirst(problems.value, box())) return;
    if (kind === "approval") decide(isEdited ? "edited" : "approved");
    else sendValue(value.value ?? null);
  };
  const change = (next: Json | undefined): void => {
    value.value = next;
    if (problems.value.size) problems.value = validate(field, next);
  };
  return { kind, field, content, value, problems, by, isBusy, mayAnswer, isDisabled: !mayAnswer || isOffline.value || isBusy.value, isEdited, change, send, sendValue, decide };
}
