import assert from "node:assert/strict";
import { test } from "node:test";
import type { ResponseSummary } from "../src/lib/types.ts";
import { knownModels, knownTools, queryOf } from "../src/views/responses/filters.ts";

const NOW = new Date(2026, 10, 19, 15, 30, 59).getTime();

function times(filters: Record<string, string>): unknown[] {
  const { created_after, created_before } = queryOf(filters, NOW);
  return [created_after, created_before];
}

test("a span ends now, and begins at a whole minute", () => {
  assert.deepEqual(times({ since: "1h" }), [new Date(2026, 10, 19, 14, 30).getTime() / 1000, undefined]);
  assert.deepEqual(times({}), [undefined, undefined]);
});

test("dates are whole days where the person is", () => {
  const first = new Date(2026, 9, 1).getTime() / 1000;
  const end = new Date(2026, 10, 1).getTime() / 1000;
  assert.deepEqual(times({ since: "dates", from: "2026-10-01", to: "2026-10-31" }), [first, end - 1]);
  assert.deepEqual(times({ since: "dates", to: "2026-10-31" }), [undefined, end - 1]);
  assert.deepEqual(times({ since: "dates", from: "soon", to: "" }), [undefined, undefined]);
});

test("dates have no effect unless they are chosen", () => {
  assert.deepEqual(times({ from: "2026-10-01", to: "2026-10-31" }), [undefined, undefined]);
});

test("models and tools that are gone can still be chosen", () => {
  const rows = [{ model: "old", tools: ["get_weather", "web_search"] }] as unknown as ResponseSummary[];
  assert.deepEqual(knownModels(["new", "auto"], rows), ["auto", "new", "old"]);
  const tools = knownTools(rows);
  assert.ok(tools.includes("get_weather"));
  assert.equal(tools.filter((name) => name === "web_search").length, 1);
});
