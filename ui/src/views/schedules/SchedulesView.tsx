/* What starts runs by itself, and who is told of them: schedules, triggers, webhooks with their deliveries. */

import type { ComponentChildren } from "preact";
import { api } from "../../api/client";
import type { Page, Schedule, Trigger } from "../../api/types";
import { formatAgo, formatDuration, formatValue, shortId } from "../../format";
import { useKeys } from "../../keys";
import { Bones, Button, Empty, type TabChoice, Tabs } from "../../parts/controls";
import { Glyph } from "../../parts/glyphs";
import { useLoad } from "../../parts/load";
import { Problem } from "../../parts/Problem";
import { address, choose, hrefOf } from "../../router";
import { now } from "../../state/clock";
import { may } from "../../state/session";
import { attempt } from "../../state/toast";
import { texts } from "../../texts";
import { closeEditor } from "./Editor";
import { ScheduleForm } from "./ScheduleForm";
import { TriggerForm } from "./TriggerForm";
import { WebhookForm } from "./WebhookForm";
import { Webhooks } from "./Webhooks";

const words = texts.schedules;
type Tab = "schedules" | "triggers" | "webhooks";
const NEW = "new";

export function SchedulesView() {
  const tabs: TabChoice<Tab>[] = [];
  if (may("schedules:manage")) tabs.push({ key: "schedules", label: words.title }, { key: "triggers", label: words.triggers });
  if (may("webhooks:manage")) tabs.push({ key: "webhooks", label: words.webhooks });
  const asked = address.value.query.get("tab");
  const chosen = tabs.find((tab) => tab.key === asked)?.key ?? tabs[0]?.key ?? "schedules";
  const isEditing = address.value.query.has("edit");
  useKeys(isEditing ? {} : { c: () => choose({ tab: chosen, edit: NEW }, true) });
  return (
    <div class="scroller">
      <header class="head">
        <h1 class="grow">{words.title}</h1>
        {!isEditing && (
          <Button look="main" icon="plus" keys="C" onClick={() => choose({ tab: chosen, edit: NEW }, true)}>
            {words.add[chosen]}
          </Button>
        )}
      </header>
      <div class="tabline">
        <Tabs label={words.title} tabs={tabs} chosen={chosen} onChoose={(key) => choose({ tab: key, edit: null, webhook: null })} />
      </div>
      <section class="sheet">{chosen === "triggers" ? <TriggerTab /> : chosen === "webhooks" ? <WebhookTab /> : <ScheduleTab />}</section>
    </div>
  );
}

interface TabProps<T> {
  load: (signal: AbortSignal) => Promise<Page<T>>;
  edit: (item: T | null) => ComponentChildren;
  list: (items: T[], again: () => void) => ComponentChildren;
  none: [string, string];
  seconds: number;
}

/** A list, or the form for one of its items. */
function EditableList<T extends { id: string }>({ load, edit, list, none, seconds }: TabProps<T>) {
  const asked = address.value.query.get("edit");
  const [loaded, again] = useLoad(load, [asked === null], asked === null ? seconds : 0);
  const { data, error } = loaded.value;
  if (asked === NEW) return <>{edit(null)}</>;
  if (error !== null && !data) return <Problem error={error} onRetry={again} />;
  if (!data) return <Bones />;
  if (asked !== null) {
    const item = data.items.find((each) => each.id === asked);
    if (item) return <>{edit(item)}</>;
    return (
      <Empty title={words.gone}>
        <Button onClick={closeEditor}>{words.back}</Button>
      </Empty>
    );
  }
  if (!data.items.length) {
    return (
      <Empty title={none[0]}>
        <p>{none[1]}</p>
      </Empty>
    );
  }
  return <>{list(data.items, again)}</>;
}

function ScheduleTab() {
  return (
    <EditableList
      load={(signal) => api.schedules(signal)}
      edit={(item) => <ScheduleForm key={item?.id} schedule={item} />}
      list={(items, again) => <ScheduleTable schedules={items} onChange={again} />}
      none={[words.none, words.noneHelp]}
      seconds={10}
    />
  );
}

function TriggerTab() {
  return (
    <EditableList
      load={(signal) => api.triggers(signal)}
      edit={(item) => <TriggerForm key={item?.id} trigger={item} />}
      list={(items, again) => <TriggerTable triggers={items} onChange={again} />}
      none={[words.noTriggers, words.noTriggersHelp]}
      seconds={20}
    />
  );
}

function WebhookTab() {
  return (
    <EditableList
      load={(signal) => api.webhooks(signal)}
      edit={(item) => <WebhookForm key={item?.id} webhook={item} />}
      list={(items, again) => <Webhooks webhooks={items} onChange={again} />}
      none={[words.noWebhooks, words.noWebhooksHelp]}
      seconds={10}
    />
  );
}

function ScheduleTable({ schedules, onChange }: { schedules: Schedule[]; onChange: () => void }) {
  return (
    <table class="plain">
      <thead>
        <tr>
          <th>{words.name}</th>
          <th>{words.next}</th>
          <th>{words.cron}</th>
          <th>{words.graph}</th>
          <th>{words.last}</th>
          <td class="acts" />
        </tr>
      </thead>
      <tbody>
        {schedules.map((schedule) => (
          <ScheduleRow key={schedule.id} schedule={schedule} onChange={onChange} />
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
        <Glyph status={schedule.paused ? "paused" : "timer"} isSilent />{" "}
        <a href={hrefOf(["schedules"], { tab: "schedules", edit: schedule.id })}>{schedule.name}</a>
      </td>
      <td class="nowrap">{schedule.paused ? words.paused : next === null ? texts.none : words.in(formatDuration(Math.max(0, next)))}</td>
      <td>
        <code>{schedule.cron}</code> <span class="quiet">{schedule.timezone}</span>
      </td>
      <td>
        <a href={hrefOf(["runs"], { graph: schedule.graph })}>{schedule.graph}</a>
      </td>
      <td class="nowrap">{schedule.lastRunId ? <a href={hrefOf(["runs", schedule.lastRunId])}>{schedule.lastAt ? formatAgo(schedule.lastAt, now.value) : shortId(schedule.lastRunId)}</a> : texts.none}</td>
      <td class="num acts">
        <Button look="small" label={`${schedule.paused ? words.resume : words.pause} ${schedule.name}`} onClick={() => void attempt(() => api.pauseSchedule(schedule.id, !schedule.paused)).then(onChange)}>
          {schedule.paused ? words.resume : words.pause}
        </Button>
      </td>
    </tr>
  );
}

function TriggerTable({ triggers, onChange }: { triggers: Trigger[]; onChange: () => void }) {
  return (
    <table class="plain">
      <thead>
        <tr>
          <th>{words.event}</th>
          <th>{words.state}</th>
          <th>{words.graph}</th>
          <th>{words.match}</th>
          <td class="acts" />
        </tr>
      </thead>
      <tbody>
        {triggers.map((trigger) => (
          <tr key={trigger.id}>
            <td>
              <a class="mono" href={hrefOf(["schedules"], { tab: "triggers", edit: trigger.id })}>
                {trigger.event}
              </a>
            </td>
            <td class="nowrap">
              <Glyph status={trigger.active ? "completed" : "paused"} isSilent /> {trigger.active ? words.active : words.paused}
            </td>
            <td>
              <a href={hrefOf(["runs"], { graph: trigger.graph })}>{trigger.graph}</a>
            </td>
            <td class="mono cut">{Object.keys(trigger.match).length ? formatValue(trigger.match) : <span class="quiet">{words.matchAll}</span>}</td>
            <td class="num acts">
              <Button look="small" label={`${trigger.active ? words.pause : words.resume} ${trigger.event}`} onClick={() => void attempt(() => api.changeTrigger(trigger.id, { active: !trigger.active })).then(onChange)}>
                {trigger.active ? words.pause : words.resume}
              </Button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
