import assert from "node:assert/strict";
import { test } from "node:test";
import { passagesOf } from "../src/lib/passages.ts";

function hit(file_id: string, chunk?: number, vector_store_id = "vs_1") {
  const text = `${file_id} ${chunk} ${vector_store_id}`;
  return {
    file_id,
    text,
    ...(chunk === undefined ? {} : { antiphon: { vector_store_id, chunk, label: "" } }),
  };
}

function texts(hits: readonly { readonly text?: string }[]): (string | undefined)[] {
  return hits.map(({ text }) => text);
}

test("a citation has the passage that it names, and the others of its file, each once", () => {
  const results = [hit("a", 0), hit("b", 4), hit("a", 4), hit("a", 4, "vs_2")];
  const items = [
    { type: "file_search_call", results },
    { type: "message" },
    { type: "file_search_call", results },
  ];
  const annotation = { type: "file_citation", file_id: "a", antiphon: { vector_store_id: "vs_1", chunk: 4 } };
  const { cited, others } = passagesOf(annotation, items);
  assert.deepEqual(texts(cited), ["a 4 vs_1"]);
  assert.deepEqual(texts(others), ["a 0 vs_1", "a 4 vs_2"]);
});

test("a citation that names no passage has all of its file", () => {
  const items = [{ type: "file_search_call", results: [hit("a"), hit("a"), hit("b")] }];
  const { cited, others } = passagesOf({ type: "file_citation", file_id: "a" }, items);
  assert.deepEqual([texts(cited).length, others.length], [2, 0]);
});

test("a passage that was found by an earlier response is not among the results", () => {
  const annotation = { type: "file_citation", file_id: "a", antiphon: { vector_store_id: "vs_1", chunk: 9 } };
  const { cited, others } = passagesOf(annotation, [{ type: "file_search_call", results: [hit("a", 1)] }]);
  assert.deepEqual([cited.length, others.length], [0, 1]);
});
