import assert from "node:assert/strict";
import { test } from "node:test";
import { readEvents, SseParser } from "../src/lib/sse.ts";

test("an event is emitted when its blank line arrives, however the text is cut", () => {
  const text = "event: a\r\ndata: 1\r\ndata: 2\r\n\r\n: comment\nevent: b\ndata: {}\n\n";
  for (let size = 1; size <= text.length; size += 1) {
    const parser = new SseParser();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(events, [
      { event: "a", data: "1\n2" },
      { event: "b", data: "{}" },
    ]);
  }
});

test("an event without data is not emitted", () => {
  assert.deepEqual(new SseParser().push("event: a\n\n"), []);
});

test("a character that is cut between two chunks is whole", async () => {
  const bytes = new TextEncoder().encode("data: ä€😀\n\n");
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
      controller.close();
    },
  });
  const events = [];
  for await (const event of readEvents(body)) events.push(event);
  assert.deepEqual(events, [{ event: "", data: "ä€😀" }]);
});
