import { computed, type Signal, signal } from "@preact/signals";
import { ApiError, request } from "../../lib/api.ts";
import { LiveResponse } from "../../lib/live.ts";
import { streamNew } from "../../lib/stream.ts";
import { type Item, isFinal, type ResponseObject } from "../../lib/types.ts";
import {
  type Attachment,
  attachmentsOf,
  DEFAULT_OPTIONS,
  headersOf,
  type Options,
  parametersOf,
  textOf,
} from "./request.ts";

/** Between attempts to retrieve a response that was stopped, until the server has saved its end: 3 s in all. */
const SAVED_WAITS_MS: readonly number[] = [50, 100, 200, 400, 750, 1500];

/** A request and its answer. `version` changes at most once a frame while the answer grows. */
export interface Turn {
  /** The number of the send that began it: turns of two columns that were sent together have the same. */
  readonly send: number;
  readonly body: Record<string, unknown>;
  readonly input: readonly Item[];
  readonly headers: Readonly<Record<string, string>>;
  readonly live: LiveResponse;
  readonly version: Signal<number>;
  readonly abort: AbortController;
  error: unknown;
  note: string;
  ended: boolean;
  /** Set once it is stopped; resolves when the server has saved its end. */
  stopping: Promise<void> | undefined;
}

/** A conversation with one model; two of them stand side by side. */
export interface Column {
  readonly id: number;
  readonly model: Signal<string>;
  readonly turns: Signal<readonly Turn[]>;
  /** The response that the first turn continues. */
  readonly base: Signal<string | undefined>;
}

let made = 0;
let sends = 0;

export function newColumn(model = ""): Column {
  made += 1;
  return {
    id: made,
    model: signal(model),
    turns: signal<readonly Turn[]>([]),
    base: signal<string | undefined>(undefined),
  };
}

export const columns = signal<readonly Column[]>([newColumn()]);
export const options = signal<Options>(DEFAULT_OPTIONS);
export const draft = signal("");
export const attachments = signal<readonly Attachment[]>([]);
export const busy = computed(() =>
  columns.value.some(({ turns }) => turns.value.some(({ version, ended }) => version.value >= 0 && !ended)),
);

function endOf(column: Column): string | undefined {
  for (const turn of [...column.turns.value].reverse())
    if (turn.live.response !== undefined && !isLost(turn)) return turn.live.response.id;
  return column.base.value;
}

/** True if the answer broke off: the server may have ended before it saved the response. */
function isLost({ error, live }: Turn): boolean {
  return error !== undefined && live.response !== undefined && !isFinal(live.response.status);
}

/** The request that `input` would make now. */
export function bodyFor(column: Column, input: readonly Item[]): Record<string, unknown> {
  const previous = endOf(column);
  return {
    model: column.model.value,
    input,
    ...(previous === undefined ? {} : { previous_response_id: previous }),
    ...parametersOf(options.value),
  };
}

/** Sends a message to these columns. */
export function start(to: readonly Column[], input: readonly Item[]): void {
  sends += 1;
  for (const column of to) startIn(column, input, sends);
}

function startIn(column: Column, input: readonly Item[], send: number): void {
  const turn: Turn = {
    send,
    body: bodyFor(column, input),
    input,
    headers: headersOf(options.value),
    live: new LiveResponse(),
    version: signal(0),
    abort: new AbortController(),
    error: undefined,
    note: "",
    ended: false,
    stopping: undefined,
  };
  column.turns.value = [...column.turns.value, turn];
  run(turn);
}

async function run(turn: Turn): Promise<void> {
  const { live, abort, headers } = turn;
  let frame = 0;
  const redraw = () => {
    frame = 0;
    turn.version.value = turn.version.value + 1;
  };
  const target = {
    apply: (event: Parameters<LiveResponse["apply"]>[0]) => {
      live.apply(event);
      turn.note = "";
      if (frame === 0) frame = requestAnimationFrame(redraw);
    },
    finished: () => live.finished,
    lastSequence: () => live.lastSequence,
    resumableId: () => (live.response?.background ? live.response.id : undefined),
    onReconnect: (attempt: number) => {
      turn.note = `The connection broke. Reconnecting (attempt ${attempt})…`;
      redraw();
    },
  };
  try {
    await streamNew(turn.body, target, abort.signal, headers);
    if (live.error !== undefined)
      turn.error = new ApiError(live.error.message, { type: "response_failed", code: live.error.code });
  } catch (error) {
    if (!abort.signal.aborted) turn.error = error;
    else if (turn.stopping !== undefined) {
      await turn.stopping;
      turn.note = "Stopped.";
    }
  }
  turn.ended = true;
  cancelAnimationFrame(frame);
  redraw();
}

/** Stops a turn. It has ended when the server has saved what there was, so that the next one can continue it. */
export function stop(turn: Turn): void {
  if (turn.stopping !== undefined) return;
  turn.abort.abort();
  turn.stopping = endOnServer(turn.live.response).catch((error: unknown) => {
    turn.error = error;
  });
}

/** A background response is cancelled, because it would go on by itself; another one ends with its connection. */
async function endOnServer(response: ResponseObject | undefined): Promise<void> {
  if (response === undefined) return;
  const path = `/v1/responses/${encodeURIComponent(response.id)}`;
  if (response.background) await request(`${path}/cancel`, { method: "POST" });
  for (const wait of SAVED_WAITS_MS) {
    if (await hasEnded(path)) return;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  throw new ApiError(
    "The stopped response was not saved in time. The next message continues the one before.",
  );
}

/** A response in the foreground is unknown until it is saved. */
async function hasEnded(path: string): Promise<boolean> {
  try {
    return isFinal((await request<ResponseObject>(path)).status);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return false;
    throw error;
  }
}

/**
 * Takes back a turn, to be edited, and in every column what was sent with it and later: what is sent next is another
 * branch from the turn before.
 */
export function editTurn({ input, send }: Turn): void {
  draft.value = textOf(input);
  attachments.value = attachmentsOf(input);
  for (const column of columns.value) takeBack(column, send);
}

/** Takes back the turns from this send on; all of them without one. */
export function takeBack(column: Column, send = 0): void {
  const turns = column.turns.value;
  for (const turn of turns) if (turn.send >= send) turn.abort.abort();
  column.turns.value = turns.filter((turn) => turn.send < send);
}
