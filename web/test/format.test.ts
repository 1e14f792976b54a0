import assert from "node:assert/strict";
import { test } from "node:test";
import { binaryBytes, idTail, wholeSeconds } from "../src/lib/format.ts";

test("a time in whole seconds has no more digits than are known", () => {
  assert.deepEqual([0, 1, 59, 60].map(wholeSeconds), ["< 1 s", "1 s", "59 s", "1 min 0 s"]);
});

test("limits have binary units", () => {
  const shown = [0, 1000, 1536, 32 * 1024 * 1024, 8 * 1024 ** 3].map(binaryBytes);
  assert.deepEqual(shown, ["0 B", "1000 B", "1.5 KiB", "32 MiB", "8 GiB"]);
});

test("the tail of an id tells it apart", () => {
  assert.equal(idTail("resp_01a1f225113e87d215510f849ad19bab"), "…d19bab");
});
