import type { ResponseObject } from "../../lib/types.ts";

/**
 * What the client asked of the model. Tools are inherited by the server, with their credentials, which no response
 * shows. A choice of tools is left out: a model that must call a tool would never answer.
 */
const PARAMETERS = [
  "instructions",
  "parallel_tool_calls",
  "reasoning",
  "text",
  "temperature",
  "top_p",
  "max_output_tokens",
  "truncation",
];

/** The request that answers an approval request: it continues the response that asked, in the background. */
export function answerBody(asked: ResponseObject, requestId: string, approve: boolean): object {
  const answer = { type: "mcp_approval_response", approval_request_id: requestId, approve };
  const body: Record<string, unknown> = { model: asked.model, input: [answer], background: true };
  if (asked.conversation == null) body.previous_response_id = asked.id;
  else body.conversation = asked.conversation.id;
  for (const name of PARAMETERS) if (asked[name] != null) body[name] = asked[name];
  return body;
}
