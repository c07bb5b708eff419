/* What was decided: approvals and answers to questions in one list, the newest first. */

import { api } from "../../api/client";
import type { Approval, PastAnswer } from "../../api/types";

export type Done = { id: string; at: string; approval: Approval; answer?: undefined } | { id: string; at: string; answer: PastAnswer; approval?: undefined };

const MOST = 100;

export async function loadDone(signal: AbortSignal): Promise<Done[]> {
  const [approvals, answers] = await Promise.all([api.approvals({ pending: false, pageSize: MOST }, signal), api.answers(MOST, signal)]);
  const done: Done[] = [
    ...approvals.items.map((approval) => ({ id: approval.id, at: approval.decidedAt ?? approval.createdAt, approval })),
    ...answers.map((answer) => ({ id: answer.id, at: answer.createdAt, answer })),
  ];
  return done.sort((one, other) => other.at.localeCompare(one.at));
}
