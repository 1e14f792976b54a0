import { listAll, type Page, request } from "../../lib/api.ts";
import { type ChainNode, pathTo } from "../../lib/chain.ts";
import type { Item, ResponseObject, ResponseSummary } from "../../lib/types.ts";
import { ReplayedCalls } from "./replayed-calls.ts";

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
  /** Both as the server measured them. */
  readonly beforeMs: number | null;
  readonly afterMs: number | null;
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
  const after = await request<ResponseObject>("/v1/responses", { method: "POST", body, signal });
  const afterMs = await totalMs(after.id, signal);
  return { before: old, after, beforeMs: node?.total_ms ?? null, afterMs };
}

/** How long a response took, which only its summary has; null if it is not stored. */
async function totalMs(id: string, signal: AbortSignal): Promise<number | null> {
  const query = { text: id, limit: 1 };
  const { data } = await request<Page<ResponseSummary>>("/v1/responses", { query, signal });
  return data[0]?.total_ms ?? null;
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
  const calls = new ReplayedCalls();
  let previous: string | undefined;
  for (const node of pathTo(nodes, id)) {
    const old = await request<ResponseObject>(`/v1/responses/${encodeURIComponent(node.id)}`, { signal });
    const input = (await inputOf(node.id)).filter((item) => !seen.has(item.id));
    const body = requestOf(old, calls.answered(input), options);
    if (previous !== undefined) body.previous_response_id = previous;
    const replay = await sendAgain(old, body, node, signal);
    for (const item of [...input, ...old.output]) seen.add(item.id);
    calls.add(old, replay.after);
    previous = replay.after.id;
    yield replay;
  }
}

/** What a branch took in all; null where it is not known of every response. */
export interface Totals {
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly ms: number | null;
}

/** The sums of a branch and of its replay. */
export function totalsOf(replays: readonly Replay[]): { readonly before: Totals; readonly after: Totals } {
  const sums = (side: "before" | "after"): Totals => ({
    inputTokens: sumOf(replays.map((replay) => replay[side].usage?.input_tokens)),
    outputTokens: sumOf(replays.map((replay) => replay[side].usage?.output_tokens)),
    ms: sumOf(replays.map(({ beforeMs, afterMs }) => (side === "before" ? beforeMs : afterMs))),
  });
  return { before: sums("before"), after: sums("after") };
}

function sumOf(values: readonly (number | null | undefined)[]): number | null {
  return values.reduce<number | null>(
    (sum, value) => (sum === null || value == null ? null : sum + value),
    0,
  );
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
