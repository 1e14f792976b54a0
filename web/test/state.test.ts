import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { ApiError } from "../src/lib/api.ts";
import {
  bodyFor,
  busy,
  type Column,
  columns,
  editTurn,
  newColumn,
  start,
  stop,
  type Turn,
} from "../src/views/playground/state.ts";

const INPUT = [{ type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] }];
const realFetch = globalThis.fetch;
let made = 0;
/** What the server does with `GET` and `POST` of a response that exists; the number counts these requests. */
let stored: (path: string, number: number) => Response;
let asked: string[] = [];

function event(type: string, id: string, status: string, background: boolean): string {
  const response = { id, status, model: "m", created_at: 0, output: [], background };
  return `data: ${JSON.stringify({ type, response })}\n\n`;
}

function refused(status: number): Response {
  return Response.json({ error: { message: "No.", type: "invalid_request_error" } }, { status });
}

/** A stream with these events; without an end it breaks when it is aborted. */
function stream(events: readonly string[], signal: AbortSignal | null | undefined, ends: boolean): Response {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const each of events) controller.enqueue(new TextEncoder().encode(each));
      if (ends) controller.close();
      signal?.addEventListener("abort", () => controller.error(signal.reason));
    },
  });
  return new Response(body);
}

beforeEach(() => {
  globalThis.requestAnimationFrame = (draw) => setTimeout(draw, 0) as unknown as number;
  globalThis.cancelAnimationFrame = (frame) => clearTimeout(frame);
  made = 0;
  asked = [];
  columns.value = [newColumn("answers")];
  globalThis.fetch = async (path, init) => {
    if (path !== "/v1/responses") {
      asked.push(`${init?.method} ${path}`);
      return stored(String(path), asked.length);
    }
    made += 1;
    const { model, background = false } = JSON.parse(String(init?.body));
    const id = `resp_${made}`;
    const events = [event("response.created", id, "in_progress", background)];
    if (model === "answers") events.push(event("response.completed", id, "completed", background));
    return stream(events, init?.signal, model !== "hangs");
  };
});

afterEach(() => {
  globalThis.fetch = realFetch;
});

function column(index = 0): Column {
  const found = columns.value[index];
  assert.ok(found !== undefined);
  return found;
}

async function until(what: () => boolean): Promise<void> {
  for (let attempt = 0; !what(); attempt += 1) {
    assert.ok(attempt < 1000, "it does not happen");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function ended(): Promise<void> {
  await until(() => !busy.value);
}

function lastTurn(): Turn {
  const turn = column().turns.value.at(-1);
  assert.ok(turn !== undefined);
  return turn;
}

/** Sends to a model that does not end its answer. */
async function hanging(): Promise<Turn> {
  column().model.value = "hangs";
  start(columns.value, INPUT);
  const turn = lastTurn();
  await until(() => turn.live.response !== undefined);
  column().model.value = "answers";
  return turn;
}

test("an edited turn is taken back where it was sent, and nothing before it", async () => {
  const first = column();
  const second = newColumn("answers");
  start([first], INPUT);
  await ended();
  columns.value = [first, second];
  start(columns.value, INPUT);
  await ended();
  start([second], [{ type: "function_call_output", call_id: "a", output: "x" }]);
  await ended();
  start(columns.value, INPUT);
  await ended();
  assert.deepEqual(
    [first, second].map(({ turns }) => turns.value.length),
    [3, 3],
  );
  const [, , last] = first.turns.value;
  assert.ok(last !== undefined);
  editTurn(last);
  assert.deepEqual(
    [first, second].map(({ turns }) => turns.value.length),
    [2, 2],
  );
  const [, middle] = first.turns.value;
  assert.ok(middle !== undefined);
  editTurn(middle);
  assert.deepEqual(
    [first, second].map(({ turns }) => turns.value.length),
    [1, 0],
  );
});

test("a response that broke off is not continued", async () => {
  start(columns.value, INPUT);
  await ended();
  column().model.value = "breaks";
  start(columns.value, INPUT);
  await ended();
  assert.match(String(lastTurn().error), /connection broke/);
  assert.equal(bodyFor(column(), INPUT).previous_response_id, "resp_1");
});

test("a stopped response has ended when it is saved, and is continued", async () => {
  stored = (_, number) => (number < 3 ? refused(404) : Response.json({ id: "resp_1", status: "cancelled" }));
  const turn = await hanging();
  stop(turn);
  stop(turn);
  await until(() => asked.length === 1);
  assert.equal(busy.value, true);
  await ended();
  assert.deepEqual(asked, Array(3).fill("GET /v1/responses/resp_1"));
  assert.deepEqual([turn.note, turn.error], ["Stopped.", undefined]);
  assert.equal(bodyFor(column(), INPUT).previous_response_id, "resp_1");
});

test("a stopped response that is never saved is not continued", async () => {
  stored = () => refused(404);
  const turn = await hanging();
  stop(turn);
  await ended();
  assert.match(String(turn.error), /not saved in time/);
  assert.equal(bodyFor(column(), INPUT).previous_response_id, undefined);
});

test("a background response is cancelled, and a cancel that fails is shown", async () => {
  stored = () => refused(403);
  const turn = await hanging();
  turn.live.apply({
    type: "response.in_progress",
    response: {
      id: "resp_1",
      status: "in_progress",
      model: "m",
      created_at: 0,
      output: [],
      background: true,
    },
  });
  stop(turn);
  await ended();
  assert.deepEqual(asked, ["POST /v1/responses/resp_1/cancel"]);
  assert.ok(turn.error instanceof ApiError && turn.error.status === 403);
});
