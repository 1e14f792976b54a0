import assert from "node:assert/strict";
import { test } from "node:test";
import { countEarlier } from "../src/lib/earlier.ts";

const QUESTION = { type: "message", role: "user" };
const ANSWER = { type: "message", role: "assistant" };

test("earlier turns end with the last item of the model", () => {
  const call = { type: "function_call" };
  const output = { type: "function_call_output" };
  assert.equal(countEarlier([QUESTION, ANSWER, QUESTION, { type: "reasoning" }, call, output, output]), 5);
  assert.equal(
    countEarlier([QUESTION, { type: "mcp_approval_request" }, { type: "mcp_approval_response" }]),
    2,
  );
});

test("an input without items of the model is of this turn", () => {
  assert.equal(countEarlier([{ type: "message", role: "developer" }, QUESTION]), 0);
  assert.equal(countEarlier([]), 0);
});
