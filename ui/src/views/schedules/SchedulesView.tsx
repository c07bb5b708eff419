/* What starts runs by itself, and who is told of them: schedules, triggers, webhooks with their deliveries. */

import { useSignal } from "@preact/signals";
import { api } from "../../api/client";
import type { Delivery, Schedule, Trigger, Webhook } from "../../api/types";
import { formatAgo, formatDuration, formatValue, shortId } from "../../format";
import { Bones, Button, Empty, type TabChoice, Tabs } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { Problem } from "../../parts/Problem";
import { address, choose, hrefOf } from "../../router";
import { now } from "../../state/clock";
import { may } from "../../state/session";
import { attempt } from "../../state/toast";
import { texts } from "../../texts";

const words = texts.schedules;
type Tab = "schedules" | "triggers" | "webhooks";

export function SchedulesView() {
  const chosen = (address.value.query.get("tab") ?? "schedules") as Tab;
  const tabs: TabChoice<Tab>[] = [
    { key: "schedules", label: words.title },
    { key: "triggers", label: words.triggers },
  ];
  if (may("webhooks:manage")) tabs.push({ key: "webhooks", label: words.webhooks });
  return (
    <div class="scroller">
      <header class="head">
        <h1>{words.title}</h1>
      </header>
      <div class="tabline">
        <Tabs label={words.title} tabs={tabs} chosen={chosen} onChoose={(key) => choose({ tab: key })} />
      </div>
      <section class="sheet">{chosen === "triggers" ? <Triggers /> : chosen === "webhooks" ? <Webhooks /> : <Schedules />}</section>
    </div>
  );
}

function Schedules() {
  const [loaded, again] = useLoad((signal) => api.schedules(signal), [], 10);
  const { data, error } = loaded.value;
  if (error !== null && !data) return <Problem error={error} onRetry={again} />;
  if (!data) return <Bones />;
  if (!data.items.length) {
    return (
      <Empty title={words.none}>
        <p>{words.noneHelp}</p>
      </Empty>
    );
  }
  return (
    <table class="plain">
      <thead>
        <tr>
          <th>{words.name}</th>
          <th>{words.graph}</th>
          <th>{words.cron}</th>
          <th>{words.next}</th>
          <th>{words.last}</th>
          <td />
        </tr>
      </thead>
      <tbody>
        {data.items.map((schedule) => (
          <ScheduleRow key={schedule.id} schedule={schedule} onChange={again} />
        ))}
      </tbody>
    </table>
  );
}

function ScheduleRow({ schedule, onChange }: { schedule: Schedule; onChange: () => void }) {
  const next = schedule.nextAt ? (Date.parse(schedule.nextAt) - now.value) / 1000 : null;
  return (
    <tr>
      <td>
        <Glyph status={schedule.paused ? "paused" : "timer"} isSilent /> {schedule.name}
      </td>
      <td>
        <a href={hrefOf(["runs"], { graph: schedule.graph })}>{schedule.graph}</a>
      </td>
      <td>
        <code>{schedule.cron}</code> <span class="quiet">{schedule.timezone}</span>
      </td>
      <td>{schedule.paused ? words.paused : next === null ? texts.none : words.in(formatDuration(Math.max(0, next)))}</td>
      <td>{schedule.lastRunId ? <a href={hrefOf(["runs", schedule.lastRunId])}>{schedule.lastAt ? formatAgo(schedule.lastAt, now.value) : shortId(schedule.lastRunId)}</a> : texts.none}</td>
      <td class="num">
        <Button look="small" onClick={() => void attempt(() => api.pauseSchedule(schedule.id, !schedule.paused)).then(onChange)}>
          {schedule.paused ? words.resume : words.pause}
        </Button>
      </td>
    </tr>
  );
}

function Triggers() {
  const [loaded, again] = useLoad((signal) => api.triggers(signal), [], 20);
  const { data, error } = loaded.value;
  if (error !== null && !data) return <Problem error={error} onRetry={again} />;
  if (!data) return <Bones />;
  if (!data.items.length) {
    return (
      <Empty title={words.noTriggers}>
        <p>{words.noTriggersHelp}</p>
      </Empty>
    );
  }
  return (
    <table class="plain">
      <thead>
        <tr>
          <th>{words.event}</th>
          <th>{words.graph}</th>
          <th>{words.match}</th>
          <th>{words.state}</th>
        </tr>
      </thead>
      <tbody>
        {data.items.map((trigger: Trigger) => (
          <tr key={trigger.id}>
            <td class="mono">{trigger.event}</td>
            <td>
              <a href={hrefOf(["runs"], { graph: trigger.graph })}>{trigger.graph}</a>
            </td>
            <td class="mono cut">{Object.keys(trigger.match).length ? formatValue(trigger.match) : texts.none}</td>
            <td>{trigger.active ? words.active : words.paused}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Webhooks() {
  const [loaded, again] = useLoad((signal) => api.webhooks(signal), [], 20);
  const { data, error } = loaded.value;
  if (error !== null && !data) return <Problem error={error} onRetry={again} />;
  if (!data) return <Bones />;
  if (!data.items.length) {
    return (
      <Empty title={words.noWebhooks}>
        <p>{words.noWebhooksHelp}</p>
      </Empty>
    );
  }
  const chosen = data.items.find((webhook) => webhook.id === address.value.query.get("webhook")) ?? data.items[0];
  return (
    <>
      <table class="plain">
        <thead>
          <tr>
            <th>{words.url}</th>
            <th>{words.events}</th>
            <th>{words.state}</th>
          </tr>
        </thead>
        <tbody>
          {data.items.map((webhook) => (
            <tr key={webhook.id} class={webhook === chosen ? "chosen" : ""} onClick={() => choose({ webhook: webhook.id })}>
              <td class="mono cut">{webhook.url}</td>
              <td class="cut">{webhook.events.join(", ")}</td>
              <td>
                <Glyph status={webhook.active ? "completed" : "failed"} isSilent /> {webhook.active ? words.active : (webhook.disabledReason ?? words.disabled)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {chosen && <Deliveries key={chosen.id} webhook={chosen} />}
    </>
  );
}

function Deliveries({ webhook }: { webhook: Webhook }) {
  const [loaded, again] = useLoad((signal) => api.deliveries(webhook.id, signal), [webhook.id], 10);
  const opened = useSignal<string | null>(null);
  const deliveries = loaded.value.data?.items;
  if (!deliveries) return <Bones rows={4} />;
  return (
    <>
      <h2 class="subhead">{words.deliveries}</h2>
      {!deliveries.length && <p class="block quiet">{words.noDeliveries}</p>}
      {deliveries.map((delivery) => (
        <DeliveryRow key={delivery.id} delivery={delivery} isOpen={opened.value === delivery.id} onOpen={() => (opened.value = opened.value === delivery.id ? null : delivery.id)} onAgain={() => void attempt(() => api.sendAgain(webhook.id, delivery.id), words.again).then(again)} />
      ))}
    </>
  );
}

function DeliveryRow({ delivery, isOpen, onOpen, onAgain }: { delivery: Delivery; isOpen: boolean; onOpen: () => void; onAgain: () => void }) {
  return (
    <>
      <div class="delivery">
        <Glyph status={delivery.status === "delivered" ? "completed" : delivery.status === "failed" ? "failed" : delivery.attempts ? "retrying" : "pending"} />
        <button type="button" class="link cut" aria-expanded={isOpen} onClick={onOpen}>
          {delivery.eventType}
        </button>
        <span class="cut quiet">{delivery.error ?? (delivery.responseStatus ? `HTTP ${delivery.responseStatus}` : "")}</span>
        <span class="quiet nowrap">{formatAgo(delivery.createdAt, now.value)}</span>
        <Button look="small" onClick={onAgain} isDisabled={delivery.status === "pending"}>
          {words.sendAgain}
        </Button>
      </div>
      {isOpen && <pre class="trace">{JSON.stringify(delivery.body, null, 2)}</pre>}
    </>
  );
}
