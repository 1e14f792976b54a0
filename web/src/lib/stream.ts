import { ApiError, type Call, send } from "./api.ts";
import { readEvents } from "./sse.ts";
import type { ResponseEvent } from "./types.ts";

/** How long a server may be away, as waits before each attempt to reconnect: 61 s in all. */
const RECONNECT_MS: readonly number[] = [250, 500, 1000, 2000, 4000, 8000, 15_000, 30_000];

export interface StreamTarget {
  readonly apply: (event: ResponseEvent) => void;
  /** True when the response has ended, so that a closed connection is the end. */
  readonly finished: () => boolean;
  /** The number of the last event that was applied. */
  readonly lastSequence: () => number;
  /** Set if the response runs in the background, which is what makes it resumable. */
  readonly resumableId: () => string | undefined;
  readonly onReconnect?: (attempt: number) => void;
}

type Send = (path: string, call: Call) => Promise<Response>;

async function readInto(response: Response, target: StreamTarget): Promise<void> {
  if (response.body === null) throw new ApiError("The server sent no stream. Try again.");
  for await (const { data } of readEvents(response.body)) {
    if (data === "[DONE]") return;
    target.apply(JSON.parse(data) as ResponseEvent);
  }
}

/** Streams a new response. A connection that breaks is resumed where it broke, if the response allows it. */
export async function streamNew(
  body: object,
  target: StreamTarget,
  signal: AbortSignal,
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  const call: Call = { method: "POST", body: { ...body, stream: true }, headers, signal };
  await streamWith(() => send("/v1/responses", call), target, signal);
}

function resume(id: string, target: StreamTarget, signal: AbortSignal, by: Send): Promise<Response> {
  const after = target.lastSequence();
  const query = { stream: true, ...(after >= 0 ? { starting_after: after } : {}) };
  return by(`/v1/responses/${id}`, { query, signal });
}

export async function streamWith(
  open: () => Promise<Response>,
  target: StreamTarget,
  signal: AbortSignal,
  by: Send = send,
  waits: readonly number[] = RECONNECT_MS,
): Promise<void> {
  let again = open;
  for (let attempt = 0; ; attempt += 1) {
    const before = target.lastSequence();
    try {
      await readInto(await again(), target);
    } catch (error) {
      if (signal.aborted || !mayRetry(error)) throw error;
      if (target.resumableId() === undefined && again === open && error instanceof ApiError) throw error;
    }
    if (target.finished() || signal.aborted) return;
    if (target.lastSequence() > before) attempt = 0;
    const id = target.resumableId();
    const wait = waits[attempt];
    if (id === undefined) {
      throw new ApiError(
        "The connection broke before the response ended. Send it again, or use background mode, which resumes.",
      );
    }
    if (wait === undefined)
      throw new ApiError("The server was away for too long. Reload the page to follow the response.");
    target.onReconnect?.(attempt + 1);
    await new Promise((resolve) => setTimeout(resolve, wait));
    again = () => resume(id, target, signal, by);
  }
}

/** A refusal is final; a connection that failed, or a server that is starting, is not. */
function mayRetry(error: unknown): boolean {
  return !(error instanceof ApiError) || error.status === 0 || error.status === 502 || error.status === 503;
}
