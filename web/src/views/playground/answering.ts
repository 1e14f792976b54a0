import type { Item } from "../../lib/types.ts";

/** By the id of an item: whether a call is approved, or the output of a function. */
export type Answered = Readonly<Record<string, boolean | string>>;

const CALLS: ReadonlySet<string> = new Set(["function_call", "custom_tool_call"]);

/** The items of an answer that wait for a person: not the calls whose output is there already. */
export function waitingIn(items: readonly Item[]): Item[] {
  const outputs = new Set(items.filter(({ type }) => type.endsWith("_output")).map(({ call_id }) => call_id));
  return items.filter(
    ({ type, call_id }) => type === "mcp_approval_request" || (CALLS.has(type) && !outputs.has(call_id)),
  );
}

/** The input that answers all of them. A function without an output has an empty one. */
export function answersOf(waiting: readonly Item[], answered: Answered): Item[] {
  return waiting.map((item) => {
    const { type, id = "", call_id = "" } = item;
    if (type === "mcp_approval_request")
      return {
        type: "mcp_approval_response",
        approval_request_id: id,
        approve: answered[id] === true,
      } as Item;
    return { type: `${type}_output`, call_id, output: String(answered[id] ?? "") };
  });
}
