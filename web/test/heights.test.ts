import assert from "node:assert/strict";
import { test } from "node:test";
import { Heights } from "../src/lib/heights.ts";

test("sums and positions agree with plain addition", () => {
  for (const count of [0, 1, 2, 3, 7, 8, 100]) {
    const heights = new Heights(count, 10);
    const plain = Array.from({ length: count }, () => 10);
    for (let index = 0; index < count; index += 3) {
      heights.set(index, 5 + index);
      plain[index] = 5 + index;
    }
    let top = 0;
    for (let index = 0; index < count; index += 1) {
      assert.equal(heights.topOf(index), top);
      assert.equal(heights.indexAt(top), index);
      top += plain[index] ?? 0;
      assert.equal(heights.indexAt(top - 1), index);
    }
    assert.equal(heights.total, top);
  }
});

test("growing keeps what is known", () => {
  const heights = new Heights(2, 10);
  heights.set(1, 50);
  heights.resize(50_000);
  assert.equal(heights.topOf(2), 60);
  assert.equal(heights.total, 60 + 49_998 * 10);
});
