import assert from "node:assert/strict";
import { test } from "node:test";
import { answerBody } from "../src/views/runs/continuation.ts";

const ASKED = {
  id: "resp_1",
  status: "completed",
  model: "qwen3",
  created_at: 1,
  output: [],
  instructions: "Be brief.",
  temperature: null,
  tool_choice: "required",
  tools: [{ type: "mcp", server_label: "files", server_url: "https://files.example" }],
};

test("an answer continues the response with its instructions, and leaves tools to the server", () => {
  assert.deepEqual(answerBody(ASKED, "mcpr_1", true), {
    model: "qwen3",
    input: [{ type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true }],
    background: true,
    previous_response_id: "resp_1",
    instructions: "Be brief.",
  });
});

test("an answer to a response of a conversation is added to the conversation", () => {
  const body = answerBody({ ...ASKED, conversation: { id: "conv_1" } }, "mcpr_1", false);
  assert.equal("previous_response_id" in body, false);
  assert.equal("conversation" in body && body.conversation, "conv_1");
});
