import assert from "node:assert/strict";
import { test } from "node:test";
import type { Item, ResponseObject } from "../src/lib/types.ts";
import { type Replay, totalsOf } from "../src/views/chains/replay.ts";
import { ReplayedCalls } from "../src/views/chains/replayed-calls.ts";

function call(name: string, call_id: string, type = "function_call"): Item {
  return { type, name, call_id, arguments: "{}" };
}

function output(call_id: string, type = "function_call_output"): Item {
  return { type, call_id, output: `of ${call_id}` };
}

function answer(output: readonly Item[], tokens: number | null = null): ResponseObject {
  const usage = tokens === null ? null : { input_tokens: tokens, output_tokens: 1 };
  return { id: "resp", status: "completed", model: "m", created_at: 0, output, usage };
}

function answered(old: readonly Item[], fresh: readonly Item[], input: readonly Item[]): Item[] {
  const calls = new ReplayedCalls();
  calls.add(answer(old), answer(fresh));
  return calls.answered(input);
}

test("outputs answer the replayed call of the same name and place", () => {
  const old = [call("f", "a"), call("g", "b"), call("f", "c"), call("f", "d", "custom_tool_call")];
  const fresh = [call("f", "x", "custom_tool_call"), call("f", "y"), call("f", "z"), call("g", "w")];
  const input = [output("c"), output("a"), output("b"), output("d", "custom_tool_call_output")];
  assert.deepEqual(
    answered(old, fresh, input).map(({ call_id, output: text }) => [call_id, text]),
    [
      ["z", "of c"],
      ["y", "of a"],
      ["w", "of b"],
      ["x", "of d"],
    ],
  );
});

test("a call that the replayed model did not make comes before its output", () => {
  const old = [call("f", "a"), call("f", "b")];
  const input = [{ type: "message", role: "user", content: "And?" }, output("a"), output("b")];
  assert.deepEqual(answered(old, [call("f", "x")], input), [
    input[0],
    { ...output("a"), call_id: "x" },
    call("f", "b"),
    output("b"),
  ]);
});

test("an old call does not take the id of a replayed one", () => {
  const found = answered([call("f", "call_1")], [call("g", "call_1")], [output("call_1")]);
  assert.deepEqual(
    found.map(({ type, name, call_id }) => [type, name, call_id]),
    [
      ["function_call", "f", "call_1_before"],
      ["function_call_output", undefined, "call_1_before"],
    ],
  );
});

test("an output whose call is in the same input stays as it is", () => {
  const input = [call("f", "a"), output("a")];
  assert.deepEqual(answered([call("f", "a")], [call("f", "x")], input), input);
});

test("the totals of a branch are those of all responses, or unknown", () => {
  const replays: Replay[] = [
    { before: answer([], 5), after: answer([], 7), beforeMs: 100, afterMs: 50 },
    { before: answer([], 10), after: answer([], 20), beforeMs: 200, afterMs: null },
  ];
  assert.deepEqual(totalsOf(replays), {
    before: { inputTokens: 15, outputTokens: 2, ms: 300 },
    after: { inputTokens: 27, outputTokens: 2, ms: null },
  });
});
