import { listAll, request } from "../../lib/api.ts";
import { type ChainNode, pathTo } from "../../lib/chain.ts";
import type { Item, ResponseObject } from "../../lib/types.ts";

/** The parameters that a replay takes over from the response. */
const PARAMETERS = [
  "instructions",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "reasoning",
  "text",
  "temperature",
  "top_p",
  "max_output_tokens",
  "truncation",
  "metadata",
];

export interface Replay {
  readonly before: ResponseObject;
  readonly after: ResponseObject;
  readonly beforeMs: number | null;
  readonly afterMs: number;
}

/** How a response is sent again. */
export interface ReplayOptions {
  readonly model: string;
  /** Replaces or adds parameters; null leaves one out. */
  readonly changes: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
}

type StoredItem = Item & { readonly id: string };

function inputOf(id: string): Promise<StoredItem[]> {
  return listAll<StoredItem>(`/v1/responses/${encodeURIComponent(id)}/input_items`, {
    query: { order: "asc" },
    limit: 50_000,
  });
}

/**
 * Items as they can be sent to another model: without the ids and states that the server gave them, and without
 * reasoning, which only the model that made it can read.
 */
export function resendable(items: readonly Item[]): Record<string, unknown>[] {
  return items
    .filter(({ type }) => type !== "reasoning")
    .map((item) => {
      const { id: _, status: __, ...rest } = item;
      return rest;
    });
}

export function requestOf(
  old: ResponseObject,
  input: readonly Item[],
  options: ReplayOptions,
): Record<string, unknown> {
  const body: Record<string, unknown> = { model: options.model, input: resendable(input) };
  for (const name of PARAMETERS) if (old[name] != null) body[name] = old[name];
  Object.assign(body, options.changes);
  for (const [name, value] of Object.entries(body)) if (value === null) delete body[name];
  return body;
}

async function sendAgain(
  old: ResponseObject,
  body: object,
  node: ChainNode | undefined,
  signal: AbortSignal,
): Promise<Replay> {
  const started = performance.now();
  const after = await request<ResponseObject>("/v1/responses", { method: "POST", body, signal });
  return { before: old, after, beforeMs: node?.total_ms ?? null, afterMs: performance.now() - started };
}

/** Sends one response again, with its whole history as the input. */
export async function replayOne(
  id: string,
  nodes: readonly ChainNode[],
  options: ReplayOptions,
): Promise<Replay> {
  const { signal } = options;
  const old = await request<ResponseObject>(`/v1/responses/${encodeURIComponent(id)}`, { signal });
  const node = nodes.find((one) => one.id === id);
  return sendAgain(old, requestOf(old, await inputOf(id), options), node, signal);
}

/** Sends every response from the root to this one again, each as the continuation of the replay before it. */
export async function* replayBranch(
  id: string,
  nodes: readonly ChainNode[],
  options: ReplayOptions,
): AsyncGenerator<Replay> {
  const { signal } = options;
  const seen = new Set<string | undefined>();
  let previous: string | undefined;
  for (const node of pathTo(nodes, id)) {
    const old = await request<ResponseObject>(`/v1/responses/${encodeURIComponent(node.id)}`, { signal });
    const input = (await inputOf(node.id)).filter((item) => !seen.has(item.id));
    const body = requestOf(old, input, options);
    if (previous !== undefined) body.previous_response_id = previous;
    const replay = await sendAgain(old, body, node, signal);
    for (const item of [...input, ...old.output]) seen.add(item.id);
    previous = replay.after.id;
    yield replay;
  }
}

/** The text of an answer. */
export function answerOf(response: ResponseObject): string {
  return response.output
    .filter(({ type }) => type === "message")
    .flatMap(({ content }) =>
      Array.isArray(content) ? (content as { text?: string; refusal?: string }[]) : [],
    )
    .map(({ text, refusal }) => text ?? refusal ?? "")
    .join("\n");
}

/** The calls of an answer, one a line. */
export function callsOf(response: ResponseObject): string {
  return response.output
    .filter(({ type }) => type.endsWith("_call"))
    .map(
      (item) =>
        `${item.name ?? item.type}(${item.arguments ?? item.input ?? item.code ?? item.queries?.join(", ") ?? ""})`,
    )
    .join("\n");
}
