/* Webhooks: who is told of what, the secret while it may be seen, and what was delivered. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../../api/client";
import type { Delivery, Webhook, WebhookWithSecret } from "../../api/types";
import { formatAgo, formatDuration } from "../../format";
import { Bones, Button, CopyButton, SureButton } from "../../parts/controls";
import { Glyph, type Status } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { address, choose, hrefOf } from "../../router";
import { now } from "../../state/clock";
import { attempt } from "../../state/toast";
import { texts } from "../../texts";
import { justSaved } from "./Editor";

const words = texts.schedules;

export function Webhooks({ webhooks, onChange }: { webhooks: Webhook[]; onChange: () => void }) {
  const secret = useSignal<WebhookWithSecret | null>(null);
  const asked = address.value.query.get("webhook");
  const chosen = webhooks.find((webhook) => webhook.id === (secret.value?.id ?? asked)) ?? webhooks[0];
  useEffect(() => {
    const saved = justSaved.value as WebhookWithSecret | null;
    if (!saved?.secret) return;
    justSaved.value = null;
    secret.value = saved;
  }, [justSaved.value]);
  return (
    <>
      {secret.value && <Secret webhook={secret.value} onDone={() => (secret.value = null)} />}
      <table class="plain">
        <thead>
          <tr>
            <th>{words.url}</th>
            <th>{words.state}</th>
            <th>{words.events}</th>
            <td class="acts" />
          </tr>
        </thead>
        <tbody>
          {webhooks.map((webhook) => (
            <tr key={webhook.id} class={webhook === chosen ? "chosen" : ""}>
              <td class="cut">
                <a class="mono" href={hrefOf(["schedules"], { tab: "webhooks", webhook: webhook.id })} aria-current={webhook === chosen ? "true" : undefined}>
                  {webhook.url}
                </a>
                {webhook.description && <span class="quiet second">{webhook.description}</span>}
              </td>
              <td>
                <Glyph status={webhook.active ? "completed" : "paused"} isSilent /> {webhook.active ? words.active : words.disabled}
                {(webhook.disabledReason || webhook.failures > 0) && <span class="quiet second">{webhook.disabledReason ?? words.failures(webhook.failures)}</span>}
              </td>
              <td class="cut">{webhook.events.join(", ") || words.allEvents}</td>
              <td class="num acts">
                <Button look="small" onClick={() => void attempt(() => api.changeWebhook(webhook.id, { active: !webhook.active })).then(onChange)}>
                  {webhook.active ? words.disable : words.enable}
                </Button>
                <Button look="small" label={`${words.edit} ${webhook.url}`} onClick={() => choose({ edit: webhook.id }, true)}>
                  {words.edit}
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {chosen && <Deliveries key={chosen.id} webhook={chosen} onSecret={(found) => (secret.value = found)} />}
    </>
  );
}

/** A secret is shown once. It stays until somebody says that it is stored. */
function Secret({ webhook, onDone }: { webhook: WebhookWithSecret; onDone: () => void }) {
  return (
    <section class="secret" aria-label={words.secret} role="status">
      <h2>{words.secret}</h2>
      <div class="cmd plain">
        <code>{webhook.secret}</code>
        <CopyButton text={webhook.secret ?? ""} />
      </div>
      <p class="quiet">{words.secretHelp}</p>
      <Button onClick={onDone}>{words.secretDone}</Button>
    </section>
  );
}

const POLL_SECONDS = 3;

function Deliveries({ webhook, onSecret }: { webhook: Webhook; onSecret: (webhook: WebhookWithSecret) => void }) {
  const [loaded, again] = useLoad((signal) => api.deliveries(webhook.id, signal), [webhook.id], POLL_SECONDS);
  const opened = useSignal<string | null>(null);
  const deliveries = loaded.value.data?.items;
  const rotate = async (): Promise<void> => {
    await attempt(async () => onSecret(await api.changeWebhook(webhook.id, { rotateSecret: true })), words.secretRotated);
  };
  return (
    <>
      <header class="subhead row">
        <h2 class="grow">{words.deliveries}</h2>
        <SureButton look="small" sure={words.rotateSure} onSure={() => void rotate()}>
          {words.rotate}
        </SureButton>
        <Button look="small" isDisabled={!webhook.active} onClick={() => void attempt(() => api.testWebhook(webhook.id), words.tested).then(again)}>
          {words.test}
        </Button>
      </header>
      {!deliveries ? (
        <Bones rows={4} />
      ) : !deliveries.length ? (
        <p class="block quiet">{words.noDeliveries}</p>
      ) : (
        <table class="plain deliveries">
          <thead>
            <tr>
              <th>{words.event}</th>
              <th>{words.status}</th>
              <th>{words.response}</th>
              <th class="num">{words.attempts}</th>
              <th>{words.next}</th>
              <th>{words.sent}</th>
              <td class="acts" />
            </tr>
          </thead>
          <tbody>
            {deliveries.map((delivery) => (
              <DeliveryRows
                key={delivery.id}
                delivery={delivery}
                isActive={webhook.active}
                isOpen={opened.value === delivery.id}
                onOpen={() => (opened.value = opened.value === delivery.id ? null : delivery.id)}
                onAgain={() => void attempt(() => api.sendAgain(webhook.id, delivery.id), words.again).then(again)}
              />
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

/** The status of a delivery as a glyph and a word: one between two attempts is tried again. */
export function stateOf(delivery: Delivery): { glyph: Status; word: string } {
  const key = delivery.status === "pending" && delivery.attempts > 0 ? "retrying" : delivery.status;
  const glyphs: Record<string, Status> = { pending: "pending", retrying: "retrying", delivered: "completed", failed: "failed" };
  return { glyph: glyphs[key] ?? "pending", word: words.deliveryStatus[key] ?? key };
}

interface DeliveryRowProps {
  delivery: Delivery;
  isActive: boolean;
  isOpen: boolean;
  onOpen: () => void;
  onAgain: () => void;
}

function DeliveryRows({ delivery, isActive, isOpen, onOpen, onAgain }: DeliveryRowProps) {
  const { glyph, word } = stateOf(delivery);
  const isDue = delivery.status === "pending" && delivery.dueAt !== null;
  const wait = isDue ? (Date.parse(delivery.dueAt ?? "") - now.value) / 1000 : 0;
  return (
    <>
      <tr>
        <td>
          <button type="button" class="link mono" aria-expanded={isOpen} onClick={onOpen}>
            {delivery.eventType}
          </button>
        </td>
        <td class="nowrap">
          <Glyph status={glyph} isSilent /> {word}
        </td>
        <td class="cut">
          {delivery.responseStatus ? <span class="mono">{delivery.responseStatus}</span> : null} <span class="quiet">{delivery.error ?? (delivery.responseStatus ? "" : texts.none)}</span>
        </td>
        <td class="num">{delivery.attempts}</td>
        <td class="nowrap">{isDue ? (wait > 0 ? words.in(formatDuration(wait)) : words.now) : <span class="quiet">{texts.none}</span>}</td>
        <td class="mid nowrap">{formatAgo(delivery.createdAt, now.value)}</td>
        <td class="num">
          <Button look="small" isDisabled={delivery.status === "pending" || !isActive} onClick={onAgain}>
            {words.sendAgain}
          </Button>
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={7}>
            <pre class="trace" aria-label={words.body}>
              {JSON.stringify(delivery.body, null, 2)}
            </pre>
          </td>
        </tr>
      )}
    </>
  );
}
