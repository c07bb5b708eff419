/* The fields of schedules, triggers and webhooks, as the API wants them. */

import type { JsonMap } from "../../api/types";
import { readField, type Field } from "../../form/schema";
import { texts } from "../../texts";

const words = texts.schedules;

function fieldOf(label: string, help: string, schema: JsonMap): Field {
  return { ...readField(schema), label, help };
}

const zones = (): string[] => (typeof Intl.supportedValuesOf === "function" ? ["UTC", ...Intl.supportedValuesOf("timeZone")] : ["UTC"]);

export const NAME = fieldOf(words.name, "", { type: "string", minLength: 1 });
export const CRON = fieldOf(words.cron, words.cronHelp, { type: "string", minLength: 1 });
export const ZONE = fieldOf(words.timezone, words.timezoneHelp, { type: "string", minLength: 1, examples: zones() });
export const TAGS = fieldOf(words.tags, "", { type: "array", items: { type: "string" }, maxItems: 50 });
export const EVENT = fieldOf(words.event, words.eventHelp, { type: "string", minLength: 1 });
export const MATCH = fieldOf(words.match, words.matchHelp, {
  type: "object",
  maxProperties: 20,
  additionalProperties: { anyOf: [{ type: "string" }, { type: "number" }, { type: "boolean" }] },
});
export const URL_FIELD = fieldOf(words.url, words.urlHelp, { type: "string", format: "uri", minLength: 1 });
export const EVENTS = fieldOf(words.events, words.eventsHelp, {
  type: "array",
  uniqueItems: true,
  items: { enum: ["workflow.completed", "workflow.failed", "workflow.cancelled", "approval.requested", "approval.decided"] },
});
export const DESCRIPTION = fieldOf(words.description, "", { type: "string" });

export const OVERLAPS = ["skip", "enqueue", "allow", "cancel"] as const;
export const CATCH_UPS = ["none", "last", "all"] as const;
