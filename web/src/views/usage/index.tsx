import { useMemo } from "preact/hooks";
import { EmptyState, Loading } from "../../components/states.tsx";
import type { ViewProps } from "../../components/view.ts";
import { type Page, type Query, request, send } from "../../lib/api.ts";
import { ABSENT, count, duration } from "../../lib/format.ts";
import { useLoad } from "../../lib/load.ts";
import { setQuery } from "../../lib/router.ts";
import { saveAs } from "../../lib/upload.ts";
import { Act, Failure, Head, Scrolled, visible } from "../parts.tsx";
import { Plot } from "./plot.tsx";
import { plots, startOf, totalOf } from "./series.ts";
import type { Bucket, Plotted } from "./types.ts";

const DAY_SECONDS = 86_400;
const HOUR_SECONDS = 3600;
const RANGES = { "1": "1 day", "7": "7 days", "30": "30 days", "90": "90 days" } as const;
const GROUPS = { model: "model", key_id: "key", upstream: "upstream" } as const;

const NO_NAME = "none";

type Group = keyof typeof GROUPS;

interface Loaded {
  readonly days: number;
  readonly group: Group;
  /** All responses of each hour or day: their percentiles cannot be made from those of groups. */
  readonly whole: readonly Bucket[];
  readonly grouped: readonly Bucket[];
}

function stepOf(days: number): number {
  return days <= 1 ? HOUR_SECONDS : DAY_SECONDS;
}

function queryOf(days: number): Query {
  const start = startOf(Date.now() / 1000, days, stepOf(days));
  return { start, bucket: days <= 1 ? "hour" : "day" };
}

async function load(days: number, group: Group, signal: AbortSignal): Promise<Loaded> {
  const query = queryOf(days);
  const [whole, grouped] = await Promise.all([
    request<Page<Bucket>>("/v1/usage", { query, signal }),
    request<Page<Bucket>>("/v1/usage", { query: { ...query, group_by: group }, signal }),
  ]);
  return { days, group, whole: whole.data, grouped: grouped.data };
}

export default function UsageView({ query: place }: ViewProps) {
  const wantedDays = Number(place.days ?? "7");
  const wantedGroup = (place.group ?? "model") as Group;
  const { data, error, stale, reload } = useLoad(
    (signal) => load(wantedDays, wantedGroup, signal),
    [],
    [wantedDays, wantedGroup],
  );
  // What is shown, which is that of the choice before while the new one is loading.
  const { days, group } = data ?? { days: wantedDays, group: wantedGroup };
  const nameOf = (bucket: Bucket) => bucket[group] ?? NO_NAME;
  const names = [...new Set((data?.grouped ?? []).map(nameOf))];
  const only = place.only !== undefined && names.includes(place.only) ? place.only : "";
  const buckets = only === "" ? data?.whole : data?.grouped.filter((each) => nameOf(each) === only);
  const drawn = useMemo(() => {
    const now = Date.now() / 1000;
    return plots(buckets ?? [], {
      start: startOf(now, days, stepOf(days)),
      end: now,
      stepSeconds: stepOf(days),
    });
  }, [data, only]);
  const download = async () => {
    const answer = await send("/v1/usage", {
      query: { ...queryOf(wantedDays), group_by: wantedGroup, format: "csv" },
      headers: { accept: "text/csv" },
    });
    saveAs("usage.csv", await answer.blob());
  };
  return (
    <>
      <Head title="Usage" about="From the responses that are stored.">
        <Choice label="Time" value={String(wantedDays)} choices={RANGES} name="days" />
        <Choice label="By" value={wantedGroup} choices={GROUPS} name="group" />
        <Only names={names} value={only} />
        <Act label="Download CSV" onClick={download} />
        <Act label="Refresh" onClick={reload} />
      </Head>
      <Failure error={error} retry={reload} />
      {buckets === undefined && error === undefined && <Loading />}
      {buckets !== undefined && buckets.length === 0 && (
        <EmptyState title="No responses in this time">
          Choose a longer time, or send a request: the <a href="#/playground">playground</a> can.
        </EmptyState>
      )}
      {buckets !== undefined && buckets.length > 0 && (
        <div aria-busy={stale}>
          <Totals buckets={buckets} />
          {drawn.map((plotted) => (
            <Figures key={plotted.title} plotted={plotted} hourly={days <= 1} />
          ))}
          <Groups buckets={data?.grouped ?? []} group={group} />
        </div>
      )}
    </>
  );
}

/** One model, key or upstream alone. */
function Only({ names, value }: { names: readonly string[]; value: string }) {
  return (
    <label class="inline-label">
      Of
      <select
        value={value}
        onChange={({ currentTarget }) => setQuery({ only: currentTarget.value || undefined })}
      >
        <option value="">all</option>
        {names.map((name) => (
          <option key={name} value={name}>
            {visible(name)}
          </option>
        ))}
      </select>
    </label>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly name: string;
  readonly value: string;
  readonly choices: Readonly<Record<string, string>>;
}

function Choice({ label, name, value, choices }: ChoiceProps) {
  return (
    <label class="inline-label">
      {label}
      <select value={value} onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value })}>
        {Object.entries(choices).map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

function Totals({ buckets }: { buckets: readonly Bucket[] }) {
  const total = (figure: (bucket: Bucket) => number) => count(totalOf(buckets, figure));
  const facts = [
    ["responses", total((each) => each.responses)],
    ["errors", total((each) => each.errors)],
    ["input tokens", total((each) => each.input_tokens)],
    ["output tokens", total((each) => each.output_tokens)],
    ["tool calls", total((each) => each.tool_calls)],
    ["cost (not recorded)", ABSENT],
  ];
  return (
    <dl class="tiles" aria-label="Totals">
      {facts.map(([name, value]) => (
        <div key={name} class="card">
          <dt class="muted">{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Figures({ plotted, hourly }: { plotted: Plotted; hourly: boolean }) {
  const shown = plotted.unit === "ms" ? duration : count;
  const when = new Intl.DateTimeFormat("en-GB", {
    day: "numeric",
    month: "short",
    timeZone: "UTC",
    ...(hourly ? { hour: "2-digit", minute: "2-digit" } : {}),
  });
  return (
    <section class="figures">
      <h2>{plotted.title}</h2>
      <div class="figures-row">
        <Plot plotted={plotted} />
        <Scrolled label={`${plotted.title}, table`}>
          <table>
            <thead>
              <tr>
                <th>{hourly ? "hour (UTC)" : "day (UTC)"}</th>
                {plotted.lines.map(({ label }) => (
                  <th key={label} class="number">
                    {label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {plotted.starts.map((start, index) => (
                <tr key={start}>
                  <td>{when.format(start * 1000)}</td>
                  {plotted.lines.map(({ label, values }) => (
                    <td key={label} class="number">
                      {values[index] == null ? "–" : shown(values[index])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Scrolled>
      </div>
    </section>
  );
}

function Groups({ buckets, group }: { buckets: readonly Bucket[]; group: keyof typeof GROUPS }) {
  const names = [...new Set(buckets.map((each) => each[group]))];
  return (
    <section aria-labelledby="groups">
      <h2 id="groups">By {GROUPS[group]}</h2>
      <Scrolled label={`Usage by ${GROUPS[group]}`}>
        <table>
          <thead>
            <tr>
              <th>{GROUPS[group]}</th>
              <th class="number">responses</th>
              <th class="number">errors</th>
              <th class="number">input</th>
              <th class="number">cached</th>
              <th class="number">output</th>
              <th class="number">reasoning</th>
              <th class="number">tool calls</th>
            </tr>
          </thead>
          <tbody>
            {names.map((name) => (
              <GroupRow key={name} name={name} buckets={buckets.filter((each) => each[group] === name)} />
            ))}
          </tbody>
        </table>
      </Scrolled>
    </section>
  );
}

function GroupRow({ name, buckets }: { name: string | null; buckets: readonly Bucket[] }) {
  const cell = (figure: (bucket: Bucket) => number) => (
    <td class="number">{count(totalOf(buckets, figure))}</td>
  );
  return (
    <tr>
      <td class="wide">{visible(name ?? NO_NAME)}</td>
      {cell((each) => each.responses)}
      {cell((each) => each.errors)}
      {cell((each) => each.input_tokens)}
      {cell((each) => each.cached_tokens)}
      {cell((each) => each.output_tokens)}
      {cell((each) => each.reasoning_tokens)}
      {cell((each) => each.tool_calls)}
    </tr>
  );
}
