import assert from "node:assert/strict";
import { test } from "node:test";
import { highlighted } from "../src/lib/highlight.ts";

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
