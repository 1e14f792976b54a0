import { computed, type Signal, signal } from "@preact/signals";
import { ApiError, request } from "../../lib/api.ts";
import { LiveResponse } from "../../lib/live.ts";
import { streamNew } from "../../lib/stream.ts";
import type { Item } from "../../lib/types.ts";
import {
  type Attachment,
  attachmentsOf,
  DEFAULT_OPTIONS,
  headersOf,
  type Options,
  parametersOf,
  textOf,
} from "./request.ts";

/** A request and its answer. `version` changes at most once a frame while the answer grows. */
export interface Turn {
  readonly body: Record<string, unknown>;
  readonly input: readonly Item[];
  readonly headers: Readonly<Record<string, string>>;
  readonly live: LiveResponse;
  readonly version: Signal<number>;
  readonly abort: AbortController;
  error: unknown;
  note: string;
  ended: boolean;
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
  const turns = column.turns.value;
  for (const { live } of [...turns].reverse()) if (live.response !== undefined) return live.response.id;
  return column.base.value;
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

export function start(column: Column, input: readonly Item[]): void {
  const turn: Turn = {
    body: bodyFor(column, input),
    input,
    headers: headersOf(options.value),
    live: new LiveResponse(),
    version: signal(0),
    abort: new AbortController(),
    error: undefined,
    note: "",
    ended: false,
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
    if (abort.signal.aborted) turn.note = "Stopped.";
    else turn.error = error;
  }
  turn.ended = true;
  cancelAnimationFrame(frame);
  redraw();
}

/** Stops a turn. A background response is cancelled, because it would go on by itself. */
export async function stop(turn: Turn): Promise<void> {
  turn.abort.abort();
  const { response } = turn.live;
  if (response?.background) await request(`/v1/responses/${response.id}/cancel`, { method: "POST" });
}

/** Takes back a turn in every column, to be edited: what is sent next is another branch from the turn before. */
export function editTurn(input: readonly Item[], index: number): void {
  draft.value = textOf(input);
  attachments.value = attachmentsOf(input);
  for (const column of columns.value) branchBefore(column, index);
}

/** Takes back the turn and those after it. */
export function branchBefore(column: Column, index: number): void {
  const turns = column.turns.value;
  for (const turn of turns.slice(index)) turn.abort.abort();
  column.turns.value = turns.slice(0, index);
}
