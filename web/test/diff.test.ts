import assert from "node:assert/strict";
import { test } from "node:test";
import { type Change, diffText } from "../src/lib/diff.ts";

function side(changes: readonly Change[], without: Change["kind"]): string {
  return changes
    .filter(({ kind }) => kind !== without)
    .map(({ text }) => text)
    .join("");
}

test("a diff contains both texts", () => {
  const texts = [
    "",
    "a",
    "a b",
    "b a",
    "the moon pulls the sea",
    "a moon draws the sea\nand more",
    "x y z\n\nx",
    "x",
  ];
  for (const before of texts) {
    for (const after of texts) {
      const changes = diffText(before, after);
      assert.equal(side(changes, "added"), before);
      assert.equal(side(changes, "removed"), after);
    }
  }
});

test("a diff keeps what is common", () => {
  assert.deepEqual(diffText("the moon pulls the sea", "the sun pulls the sea"), [
    { kind: "same", text: "the " },
    { kind: "removed", text: "moon" },
    { kind: "added", text: "sun" },
    { kind: "same", text: " pulls the sea" },
  ]);
});

test("texts that have little in common do not take long", () => {
  const words = (salt: number) =>
    Array.from({ length: 15_000 }, (_, index) => `${(index * salt) % 9973}`).join(" ");
  const [before, after] = [words(7), words(11)];
  const started = performance.now();
  const changes = diffText(before, after);
  assert.ok(performance.now() - started < 2000);
  assert.equal(side(changes, "added"), before);
  assert.equal(side(changes, "removed"), after);
});
