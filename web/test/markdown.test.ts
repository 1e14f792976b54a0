import assert from "node:assert/strict";
import { test } from "node:test";
import { segments } from "../src/lib/controls.ts";
import { parseMarkdown, SettledText, safeHref } from "../src/lib/markdown.ts";

test("HTML in Markdown is text", () => {
  const blocks = parseMarkdown("a <b onclick=x>b</b>\n\n<script>alert(1)</script>\n");
  assert.deepEqual(
    blocks.map(({ kind }) => kind),
    ["paragraph", "text"],
  );
  assert.match(JSON.stringify(blocks), /<script>alert\(1\)<\/script>/);
  assert.match(JSON.stringify(blocks), /<b onclick=x>/);
});

test("an address that is not of the web is not followed", () => {
  for (const href of [
    "javascript:alert(1)",
    " JaVaScRiPt:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "/relative",
    "file:///etc",
  ]) {
    assert.equal(safeHref(href), undefined, href);
  }
  assert.equal(safeHref("https://example.com/a"), "https://example.com/a");
  const [block] = parseMarkdown("[x](javascript:alert(1)) ![y](data:text/html,z)");
  assert.ok(block?.kind === "paragraph");
  assert.deepEqual(
    block.children
      .filter(({ kind }) => kind !== "text")
      .map((inline) => ("href" in inline ? inline.href : "none")),
    [undefined, undefined],
  );
});

test("text that is nested too deep is shown as it is, and quickly", () => {
  for (const hostile of [
    ">".repeat(10_000),
    "- ".repeat(5_000),
    "1".repeat(1_000_000),
    "[".repeat(20_000),
    "*".repeat(19_000),
  ]) {
    const started = performance.now();
    const blocks = parseMarkdown(hostile);
    assert.ok(
      performance.now() - started < 1000,
      `${hostile.slice(0, 5)}: ${performance.now() - started} ms`,
    );
    assert.ok(blocks.length >= 1);
  }
});

test("hidden characters are named", () => {
  assert.deepEqual(segments("a\u202eb\u0007"), [
    { text: "a", control: false },
    { text: "RLO", control: true },
    { text: "b", control: false },
    { text: "U+0007", control: true },
  ]);
  assert.deepEqual(segments("שלום\n\t"), [{ text: "שלום\n\t", control: false }]);
});

function settle(text: string, size: number): SettledText {
  const growing = new SettledText();
  for (let at = 0; at < text.length; at += size) growing.append(text.slice(at, at + size));
  return growing;
}

test("finished blocks settle, and settled blocks and tail are the text", () => {
  const text = "One.\n\nTwo\nmore.\n\n```js\na\n\nb\n```\n\nThree\n\n- x\n\n  y\n\n- z\n\nEnd";
  for (let size = 1; size < text.length; size += 1) {
    const growing = settle(text, size);
    assert.equal(growing.settled.join("") + growing.tail, text);
    assert.deepEqual(
      growing.settled,
      ["One.\n\n", "Two\nmore.\n\n", "```js\na\n\nb\n```\n\n"].concat(growing.settled.slice(3)),
    );
  }
});

test("the tail of a long answer stays short", () => {
  const growing = settle("word word word\n\n".repeat(5000), 7);
  assert.ok(growing.tail.length < 64);
  assert.ok(growing.settled.length > 4990);
});
