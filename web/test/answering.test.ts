import assert from "node:assert/strict";
import { test } from "node:test";
import { answersOf, waitingIn } from "../src/views/playground/answering.ts";

const CALLS = [
  { type: "function_call", id: "fc_1", call_id: "call_a", name: "f" },
  { type: "custom_tool_call", id: "ctc_1", call_id: "call_b", name: "g" },
  { type: "mcp_approval_request", id: "mcpr_1", name: "h" },
];

test("all calls of an answer are answered together", () => {
  const waiting = waitingIn([{ type: "reasoning" }, ...CALLS]);
  assert.deepEqual(answersOf(waiting, { fc_1: "21 °C", mcpr_1: true }), [
    { type: "function_call_output", call_id: "call_a", output: "21 °C" },
    { type: "custom_tool_call_output", call_id: "call_b", output: "" },
    { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true },
  ]);
});

test("a call that has its output does not wait", () => {
  const items = [...CALLS.slice(0, 1), { type: "function_call_output", call_id: "call_a", output: "x" }];
  assert.deepEqual(waitingIn(items), []);
});
