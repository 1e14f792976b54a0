import type { Bucket, Plotted } from "./types.ts";

type Figure = (bucket: Bucket) => number | null | undefined;

export interface Range {
  readonly start: number;
  readonly end: number;
  readonly stepSeconds: number;
}

/** The start of the first of the buckets of these days, of which the one that now is in is the last. */
export function startOf(now: number, days: number, stepSeconds: number): number {
  const last = Math.floor(now / stepSeconds) * stepSeconds;
  return last - (Math.round((days * 86_400) / stepSeconds) - 1) * stepSeconds;
}

/** Every start of a bucket in a time, so that hours and days without requests are seen. */
export function startsOf({ start, end, stepSeconds }: Range): number[] {
  const found: number[] = [];
  for (let at = Math.ceil(start / stepSeconds) * stepSeconds; at <= end; at += stepSeconds) found.push(at);
  return found;
}

export function totalOf(buckets: readonly Bucket[], figure: Figure): number {
  return buckets.reduce((sum, bucket) => sum + (figure(bucket) ?? 0), 0);
}

/** A line of sums. A time without a bucket has 0. */
export function summed(buckets: readonly Bucket[], starts: readonly number[], figure: Figure): number[] {
  const sums = new Map(starts.map((start) => [start, 0]));
  for (const bucket of buckets) sums.set(bucket.start, (sums.get(bucket.start) ?? 0) + (figure(bucket) ?? 0));
  return starts.map((start) => sums.get(start) ?? 0);
}

/** A line of the buckets' own values: quantiles cannot be added, so a time has its largest one. */
export function largest(
  buckets: readonly Bucket[],
  starts: readonly number[],
  figure: Figure,
): (number | null)[] {
  const found = new Map<number, number>();
  for (const bucket of buckets) {
    const value = figure(bucket);
    if (value != null) found.set(bucket.start, Math.max(value, found.get(bucket.start) ?? 0));
  }
  return starts.map((start) => found.get(start) ?? null);
}

export function plots(buckets: readonly Bucket[], range: Range): Plotted[] {
  const starts = startsOf(range);
  const sum = (label: string, figure: Figure) => ({ label, values: summed(buckets, starts, figure) });
  const top = (label: string, figure: Figure) => ({ label, values: largest(buckets, starts, figure) });
  return [
    {
      title: "Tokens",
      unit: "count",
      starts,
      lines: [
        sum("input", (each) => each.input_tokens),
        sum("cached", (each) => each.cached_tokens),
        sum("output", (each) => each.output_tokens),
        sum("reasoning", (each) => each.reasoning_tokens),
      ],
    },
    {
      title: "Time to the first token",
      unit: "ms",
      starts,
      lines: [
        top("p50", (each) => each.first_token_ms?.p50),
        top("p95", (each) => each.first_token_ms?.p95),
        top("p99", (each) => each.first_token_ms?.p99),
      ],
    },
    {
      title: "Total time",
      unit: "ms",
      starts,
      lines: [
        top("p50", (each) => each.total_ms?.p50),
        top("p95", (each) => each.total_ms?.p95),
        top("p99", (each) => each.total_ms?.p99),
      ],
    },
    {
      title: "Responses, errors and tool calls",
      unit: "count",
      starts,
      lines: [
        sum("responses", (each) => each.responses),
        sum("errors", (each) => each.errors),
        sum("tool calls", (each) => each.tool_calls),
      ],
    },
  ];
}
