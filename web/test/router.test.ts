import assert from "node:assert/strict";
import { test } from "node:test";
import { parsePlace, placeTo } from "../src/lib/router.ts";

test("a place survives its own address", () => {
  const address = placeTo(["responses", "a/b?c"], { tab: "x&y", empty: undefined });
  assert.deepEqual(parsePlace(address), { path: ["responses", "a/b?c"], query: { tab: "x&y" } });
});

test("an address that cannot be decoded is taken as it is", () => {
  assert.deepEqual(parsePlace("#/responses/%zz").path, ["responses", "%zz"]);
});
