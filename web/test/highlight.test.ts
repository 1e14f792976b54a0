import assert from "node:assert/strict";
import { test } from "node:test";
import { excerptOf, highlighted } from "../src/lib/highlight.ts";

function marked(text: string, question: string): string[] {
  return highlighted(text, question)
    .filter((piece) => piece.marked)
    .map((piece) => piece.text);
}

test("words of the question are marked without regard to case, accents and endings", () => {
  assert.deepEqual(marked("Keys are revoked at the café.", "revoke KEYS cafe"), ["Keys", "revoked", "café"]);
});

test("short words are not marked, and neither are short beginnings", () => {
  assert.deepEqual(marked("It is a key to the kit", "is it a ki"), []);
});

test("the pieces together are the text", () => {
  const text = "A key, <b>two</b> keys.\nNo more.";
  const pieces = highlighted(text, "keys more");
  assert.equal(pieces.map((piece) => piece.text).join(""), text);
});

function excerpt(text: string, question: string): [string, boolean] {
  const { pieces, cut } = excerptOf(highlighted(text, question));
  return [pieces.map((piece) => piece.text).join(""), cut];
}

test("an excerpt begins a few words before the first mark", () => {
  const [text, cut] = excerpt(`${"before ".repeat(50)}a key ${"after ".repeat(100)}`, "key");
  assert.match(text, /^(before ){8}a key after /);
  assert.equal(text.length, 300);
  assert.equal(cut, true);
});

test("a short text is its own excerpt, and one without marks begins at its start", () => {
  assert.deepEqual(excerpt("Revoke a key.", "key"), ["Revoke a key.", false]);
  assert.deepEqual(excerpt("x".repeat(400), "key"), ["x".repeat(300), true]);
});
