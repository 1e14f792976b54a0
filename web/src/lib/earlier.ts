import type { Item } from "./types.ts";

/** What a client adds to a conversation; every other item is the model's. */
function isOfClient({ type, role }: Item): boolean {
  if (type === "message" || role !== undefined) return role !== "assistant";
  return type.endsWith("_output") || type === "mcp_approval_response";
}

/** How many of the first items of an input are of earlier turns: up to the last one of the model. */
export function countEarlier(input: readonly Item[]): number {
  return input.findLastIndex((item) => !isOfClient(item)) + 1;
}
