/* What model calls have cost: in total, by day, by model and by graph. */

import { api } from "../../api/client";
import type { DailyCost } from "../../api/types";
import { formatCost, formatCount, formatDay } from "../../format";
import { Bones, Empty, Segments } from "../../parts/controls";
import { useLoad } from "../../parts/load";
import { Problem } from "../../parts/Problem";
import { address, choose, hrefOf } from "../../router";
import { texts } from "../../texts";

const words = texts.costs;
const PERIODS = { "7d": 7, "30d": 30, "90d": 90 } as const;
type Period = keyof typeof PERIODS;
const DAY = 86_400_000;

export function CostsView() {
  const asked = address.value.query.get("period");
  const period: Period = asked && asked in PERIODS ? (asked as Period) : "30d";
  const days = PERIODS[period];
  const to = Math.ceil(Date.now() / DAY) * DAY;
  const range = { from: new Date(to - days * DAY).toISOString(), to: new Date(to).toISOString() };
  const [loaded, again] = useLoad(
    async (signal) => {
      const [summary, byModel, byGraph] = await Promise.all([api.costs(range, signal), api.costsByDay(range, signal), api.costsByDay({ ...range, by: "graph" }, signal)]);
      return { summary, byModel, byGraph };
    },
    [period],
    60,
  );
  const { data, error } = loaded.value;
  return (
    <div class="scroller">
      <header class="head">
        <h1>{words.title}</h1>
        <span class="grow" />
        <Segments label={words.period} chosen={period} onChoose={(key) => choose({ period: key })} choices={(Object.keys(PERIODS) as Period[]).map((key) => ({ key, label: words.days(PERIODS[key]) }))} />
      </header>
      <section class="sheet">
        {error !== null && !data ? (
          <Problem error={error} onRetry={again} />
        ) : !data ? (
          <Bones />
        ) : !data.summary.total.calls ? (
          <Empty title={words.none}>
            <p>{words.noneHelp}</p>
          </Empty>
        ) : (
          <>
            <dl class="facts block">
              <Fact name={words.cost} value={formatCost(data.summary.total.costUsd)} />
              <Fact name={words.calls} value={formatCount(data.summary.total.calls)} />
              <Fact name={words.input} value={formatCount(data.summary.total.inputTokens)} />
              <Fact name={words.output} value={formatCount(data.summary.total.outputTokens)} />
            </dl>
            <Days costs={data.byModel} first={Date.parse(range.from)} days={days} />
            <div class="halves">
              <Sums title={words.byModel} head={words.model} counted={words.calls} costs={data.byModel} />
              <Sums title={words.byGraph} head={words.graph} counted={texts.runs.title} costs={data.byGraph} hrefOfName={(name) => hrefOf(["runs"], { graph: name })} />
            </div>
          </>
        )}
      </section>
    </div>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Days({ costs, first, days }: { costs: DailyCost[]; first: number; days: number }) {
  const sums = new Array<number>(days).fill(0);
  for (const cost of costs) {
    const day = Math.floor((Date.parse(cost.day) - first) / DAY);
    if (day >= 0 && day < days) sums[day] = (sums[day] ?? 0) + cost.costUsd;
  }
  const most = Math.max(...sums, 1e-9);
  return (
    <figure class="strip tall" aria-label={words.byDay}>
      <svg>
        {sums.map((sum, day) => {
          const high = sum ? Math.max(2, (sum / most) * 72) : 0;
          return (
            high > 0 && (
              <rect key={day} class={day === days - 1 ? "live-bar" : "done"} x={`${(day / days) * 100}%`} y={76 - high} width={`${75 / days}%`} height={high}>
                <title>{`${formatDay(new Date(first + day * DAY).toISOString())}: ${formatCost(sum)}`}</title>
              </rect>
            )
          );
        })}
        <line class="base" y1="76.5" y2="76.5" x2="100%" />
        <text y="94">{formatDay(new Date(first).toISOString())}</text>
        <text y="94" x="100%" text-anchor="end">
          {formatDay(new Date(first + (days - 1) * DAY).toISOString())}
        </text>
      </svg>
    </figure>
  );
}

function Sums({ title, head, counted, costs, hrefOfName }: { title: string; head: string; counted: string; costs: DailyCost[]; hrefOfName?: (name: string) => string }) {
  const sums = new Map<string, { count: number; cost: number }>();
  for (const cost of costs) {
    const sum = sums.get(cost.name) ?? { count: 0, cost: 0 };
    sums.set(cost.name, { count: sum.count + cost.count, cost: sum.cost + cost.costUsd });
  }
  const rows = [...sums].sort(([, a], [, b]) => b.cost - a.cost);
  const most = rows[0]?.[1].cost || 1;
  return (
    <section>
      <h2 class="subhead">{title}</h2>
      <table class="plain">
        <thead>
          <tr>
            <th>{head}</th>
            <th class="num">{counted}</th>
            <th>{words.cost}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, { count, cost }]) => (
            <tr key={name}>
              <td>{hrefOfName ? <a href={hrefOfName(name)}>{name}</a> : name}</td>
              <td class="num">{formatCount(count)}</td>
              <td>
                <div class="dur">
                  <svg aria-hidden>
                    <rect class="track" y="3.5" width="100%" height="1" />
                    <rect class="b-completed" y="1" width={`${(cost / most) * 100}%`} height="6" rx="1" />
                  </svg>
                  <span class="num">{formatCost(cost)}</span>
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
