import assert from "node:assert/strict";
import { test } from "node:test";
import { isFinal } from "../src/lib/types.ts";
import { age, score } from "../src/views/figures.ts";

test("a score has three digits", () => {
  assert.deepEqual([0.5, null].map(score), ["0.500", "–"]);
});

test("a time is told by how long ago it was", () => {
  assert.equal(age(90, 100), "10 s ago");
  assert.equal(age(0, 7200), "2 h ago");
});

test("work that is queued, runs or waits is not final", () => {
  assert.deepEqual(["queued", "in_progress", "waiting"].filter(isFinal), []);
  const final = ["completed", "failed", "cancelled", "incomplete"];
  assert.deepEqual(final.filter(isFinal), final);
});
