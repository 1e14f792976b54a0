import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../src/lib/api.ts";
import { LiveResponse } from "../src/lib/live.ts";
import { type StreamTarget, streamWith } from "../src/lib/stream.ts";
import type { ResponseEvent } from "../src/lib/types.ts";

const RESPONSE = {
  id: "resp_1",
  status: "in_progress",
  model: "m",
  created_at: 0,
  output: [],
  background: true,
};
const EVENTS: ResponseEvent[] = [
  { type: "response.created", sequence_number: 0, response: RESPONSE },
  {
    type: "response.output_item.added",
    sequence_number: 1,
    output_index: 0,
    item: { type: "message", content: [] },
  },
  {
    type: "response.output_text.delta",
    sequence_number: 2,
    output_index: 0,
    content_index: 0,
    delta: "One.\n\n",
  },
  { type: "response.output_text.delta", sequence_number: 3, output_index: 0, content_index: 0, delta: "Two" },
  { type: "response.completed", sequence_number: 4, response: { ...RESPONSE, status: "completed" } },
];

function body(events: readonly ResponseEvent[]): Response {
  return new Response(
    events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""),
  );
}

function targetOf(live: LiveResponse, background: boolean): StreamTarget {
  return {
    apply: (event) => live.apply(event),
    finished: () => live.finished,
    lastSequence: () => live.lastSequence,
    resumableId: () => (background ? live.response?.id : undefined),
  };
}

test("a broken stream of a background response resumes after its last event", async () => {
  const live = new LiveResponse();
  const asked: unknown[] = [];
  const resume = async (path: string, call: { query?: unknown }) => {
    asked.push([path, call.query]);
    if (asked.length === 1) throw new ApiError("away");
    return body(EVENTS.slice(2));
  };
  const { signal } = new AbortController();
  await streamWith(async () => body(EVENTS.slice(0, 3)), targetOf(live, true), signal, resume, [0, 0]);
  assert.deepEqual(asked, Array(2).fill(["/v1/responses/resp_1", { stream: true, starting_after: 2 }]));
  const text = live.items[0]?.texts.get("text:0");
  assert.equal(`${text?.settled.join("")}${text?.tail}`, "One.\n\nTwo");
  assert.equal(live.response?.status, "completed");
});

test("a broken stream of another response says so", async () => {
  const live = new LiveResponse();
  const { signal } = new AbortController();
  const open = async () => body(EVENTS.slice(0, 3));
  await assert.rejects(streamWith(open, targetOf(live, false), signal), /The connection broke/);
});

test("a server that stays away is given up", async () => {
  const live = new LiveResponse();
  const { signal } = new AbortController();
  const away = async () => {
    throw new ApiError("away");
  };
  const open = async () => body(EVENTS.slice(0, 1));
  await assert.rejects(streamWith(open, targetOf(live, true), signal, away, [0, 0]), /away for too long/);
});

test("a refusal is not tried again", async () => {
  const live = new LiveResponse();
  let times = 0;
  const refuse = async () => {
    times += 1;
    throw new ApiError("no such model", { status: 404 });
  };
  await assert.rejects(
    streamWith(refuse, targetOf(live, true), new AbortController().signal),
    /no such model/,
  );
  assert.equal(times, 1);
});
