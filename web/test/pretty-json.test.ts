import assert from "node:assert/strict";
import { test } from "node:test";
import { prettyJson } from "../src/lib/pretty-json.ts";

test("JSON is indented", () => {
  const value = { a: [1, { b: [] }, "x, y: {z}"], 'c"\\': {}, d: [[true, null], -1.5e-7] };
  assert.equal(prettyJson(JSON.stringify(value)), JSON.stringify(value, null, 2));
  assert.equal(prettyJson(" \t[1 ,\r\n 2]\n"), "[\n  1,\n  2\n]");
  for (const text of ['"a"', "12", "null", "{}", "[]"]) assert.equal(prettyJson(text), text);
});

test("members of the same name, large numbers and escapes are shown as they are", () => {
  assert.equal(
    prettyJson('{"path":"/tmp/a","path":"/","id":9007199254740993,"n":1e400,"m":1.0,"e":"\\u0061\\/"}'),
    '{\n  "path": "/tmp/a",\n  "path": "/",\n  "id": 9007199254740993,\n  "n": 1e400,\n  "m": 1.0,\n  "e": "\\u0061\\/"\n}',
  );
  assert.equal(prettyJson('{"__proto__":1,"10":1,"9":2}'), '{\n  "__proto__": 1,\n  "10": 1,\n  "9": 2\n}');
});

test("a text that is not JSON stays as it is", () => {
  for (const text of ["", "{", '{"a": 1', "[1, ]", "{'a': 1}", "NaN", '{"a": "b'])
    assert.equal(prettyJson(text), text);
});

test("deep nesting is indented up to a limit", () => {
  const deep = `${"[".repeat(100_000)}1,2${"]".repeat(100_000)}`;
  const shown = prettyJson(deep);
  assert.equal(shown.replaceAll(/\s/g, ""), deep);
  assert.ok(shown.length < deep.length + 2000, `${shown.length} characters`);
  assert.ok(shown.startsWith("[\n  [\n    ["));
});

test("a text of 1 MB is indented at once", () => {
  const text = JSON.stringify({
    text: '\\"'.repeat(250_000),
    list: Array.from({ length: 50_000 }, (_, n) => n),
  });
  const began = performance.now();
  const shown = prettyJson(text);
  assert.ok(performance.now() - began < 2000);
  assert.equal(shown, JSON.stringify(JSON.parse(text), null, 2));
  const long = `"${"a".repeat(1_000_000)}"`;
  assert.equal(prettyJson(long), long);
});
