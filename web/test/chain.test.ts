import assert from "node:assert/strict";
import { test } from "node:test";
import { type ChainNode, pathTo, rowsOf } from "../src/lib/chain.ts";

function node(id: string, parent: string | null, created_at: number): ChainNode {
  const rest = { status: "completed", model: "m", input_tokens: 1, output_tokens: 1, total_ms: 1 };
  return { id, parent, created_at, ...rest, compaction: false, input_preview: "", output_preview: "" };
}

test("only forks are indented, and older branches come first", () => {
  const nodes = [
    node("d", "b", 5),
    node("a", null, 1),
    node("c", "b", 3),
    node("b", "a", 2),
    node("e", "c", 4),
  ];
  assert.deepEqual(
    rowsOf(nodes).map(({ node: { id }, depth, children, startsBranch }) => [
      id,
      depth,
      children,
      startsBranch,
    ]),
    [
      ["a", 0, 1, false],
      ["b", 0, 2, false],
      ["c", 1, 1, true],
      ["e", 1, 0, false],
      ["d", 1, 0, true],
    ],
  );
});

test("a node whose parent is not there is a root", () => {
  assert.equal(rowsOf([node("b", "gone", 1)]).length, 1);
});

test("a long chain is walked without recursion", () => {
  const nodes = Array.from({ length: 20_000 }, (_, index) =>
    node(`${index}`, index === 0 ? null : `${index - 1}`, index),
  );
  assert.equal(rowsOf(nodes).length, 20_000);
  assert.equal(pathTo(nodes, "5").length, 6);
});
