import assert from "node:assert/strict";
import { test } from "node:test";
import { largest, plots, startOf, startsOf, summed } from "../src/views/usage/series.ts";
import type { Bucket } from "../src/views/usage/types.ts";

const DAY = 86_400;

function bucket(start: number, changes: Partial<Bucket> = {}): Bucket {
  return {
    object: "usage.bucket",
    start,
    model: "m",
    key_id: null,
    upstream: null,
    responses: 1,
    errors: 0,
    input_tokens: 10,
    cached_tokens: 0,
    output_tokens: 5,
    reasoning_tokens: 0,
    tool_calls: 0,
    first_token_ms: null,
    total_ms: null,
    ...changes,
  };
}

test("every day of the time has a place, also days without requests", () => {
  assert.deepEqual(startsOf({ start: DAY / 2, end: 3.5 * DAY, stepSeconds: DAY }), [DAY, 2 * DAY, 3 * DAY]);
});

test("the time begins with a whole day or hour, so that nothing is counted that is not drawn", () => {
  const now = 20 * DAY + 3605;
  assert.equal(startOf(now, 7, DAY), 14 * DAY);
  assert.equal(startsOf({ start: startOf(now, 7, DAY), end: now, stepSeconds: DAY }).length, 7);
  assert.equal(startOf(now, 1, 3600), 20 * DAY + 3600 - 23 * 3600);
});

test("models of a day are added up, and days without a bucket are 0", () => {
  const buckets = [bucket(DAY), bucket(DAY, { model: "n" }), bucket(3 * DAY)];
  assert.deepEqual(
    summed(buckets, [DAY, 2 * DAY, 3 * DAY], (each) => each.input_tokens),
    [20, 0, 10],
  );
});

test("quantiles are not added up, and days without a measurement have none", () => {
  const times = { p50: 1, p95: 2, p99: 3 };
  const buckets = [bucket(DAY, { total_ms: times }), bucket(DAY, { total_ms: { ...times, p95: 9 } })];
  assert.deepEqual(
    largest(buckets, [DAY, 2 * DAY], (each) => each.total_ms?.p95),
    [9, null],
  );
});

test("each plot has as many values as starts", () => {
  for (const { starts, lines } of plots([bucket(DAY)], { start: DAY, end: 5 * DAY, stepSeconds: DAY })) {
    for (const { values } of lines) assert.equal(values.length, starts.length);
  }
});
