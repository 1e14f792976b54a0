import assert from "node:assert/strict";
import { test } from "node:test";
import { marksOf } from "../src/lib/marks.ts";

test("a downgrade marks the member that it begins with", () => {
  const downgrades = [
    "temprature: unknown; did you mean temperature?",
    "tools[0].type: shown as a function",
    "no subject",
    {},
  ];
  assert.deepEqual(marksOf(downgrades), {
    temprature: "unknown; did you mean temperature?",
    "tools.0.type": "shown as a function",
  });
});
