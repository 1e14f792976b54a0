import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutMarks } from "../src/lib/previews.ts";

test("a preview has no marks of Markdown", () => {
  assert.equal(
    withoutMarks("**Summary.** From 02:14 the _pool_ is `full`."),
    "Summary. From 02:14 the pool is full.",
  );
  assert.equal(withoutMarks("```python def one(): return 1 ``` ends"), "def one(): return 1  ends");
  assert.equal(withoutMarks("# Title > quoted [docs](https://example.com/a)"), "Title quoted docs");
});

test("names, sums and calls keep their characters", () => {
  const lines = [
    "get_weather(unit_name)",
    "2 * 3 * 4 = 24",
    "a #1 and C#",
    'f({"a": [1](2)})'.slice(0, 9),
    "snake_case_name",
  ];
  assert.deepEqual(lines.map(withoutMarks), lines);
});
