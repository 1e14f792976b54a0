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

test("the last branch closes the line of its fork", () => {
  const nodes = [
    node("a", null, 1),
    node("b", "a", 2),
    node("b1", "b", 3),
    node("c", "a", 4),
    node("c1", "c", 5),
    node("d", "c1", 6),
    node("e", "c1", 7),
  ];
  assert.deepEqual(
    rowsOf(nodes).map(({ node: { id }, lines }) => [id, lines]),
    [
      ["a", ""],
      ["b", "├─"],
      ["b1", "│ "],
      ["c", "└─"],
      ["c1", "  "],
      ["d", "  ├─"],
      ["e", "  └─"],
    ],
  );
});

test("forks below forks are drawn up to a depth", () => {
  const nodes = Array.from({ length: 60 }, (_, index) =>
    node(`${index}`, index === 0 ? null : `${2 * Math.floor((index - 1) / 2)}`, index),
  );
  assert.equal(Math.max(...rowsOf(nodes).map(({ lines }) => lines.length)), 24);
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
