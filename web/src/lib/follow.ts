import { type Query, send } from "./api.ts";
import { readEvents } from "./sse.ts";

const FIRST_WAIT_MS = 300;
const MAX_WAIT_MS = 5000;

export interface Followed {
  readonly type: string;
  readonly sequence_number: number;
  readonly [name: string]: unknown;
}

export interface Follower {
  /** The path of the object; its stream starts after any event. */
  readonly path: string;
  /** Beside what a stream needs. */
  readonly query?: Query;
  readonly signal: AbortSignal;
  readonly onEvent: (event: Followed) => void;
  /** The connection broke, or is there again. */
  readonly onConnection?: (connected: boolean) => void;
}

/**
 * Follows a stored stream to its end. If the connection breaks, or the server restarts, it continues after the
 * last event that arrived.
 */
export async function follow({ path, query, signal, onEvent, onConnection }: Follower): Promise<void> {
  let after: number | undefined;
  let waitMs = FIRST_WAIT_MS;
  while (!signal.aborted) {
    try {
      const response = await send(path, { query: { ...query, stream: true, starting_after: after }, signal });
      if (response.body === null) return;
      onConnection?.(true);
      for await (const { data } of readEvents(response.body)) {
        if (data === "[DONE]") return;
        const event = JSON.parse(data) as Followed;
        if (typeof event.sequence_number !== "number" || event.sequence_number <= (after ?? -1)) continue;
        after = event.sequence_number;
        waitMs = FIRST_WAIT_MS;
        onEvent(event);
      }
    } catch (error) {
      if (signal.aborted || !isTemporary(error)) throw error;
    }
    onConnection?.(false);
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    waitMs = Math.min(2 * waitMs, MAX_WAIT_MS);
  }
}

/** No connection, or a server that is starting or stopping. */
function isTemporary(error: unknown): boolean {
  const status = (error as { status?: number }).status ?? 0;
  return status === 0 || status === 502 || status === 503;
}
