import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "../src/lib/api.ts";
import { EventLog } from "../src/lib/event-log.ts";
import type { StoredEvent } from "../src/lib/trace.ts";

const PAGE_SIZE = 2;
const SIGNAL = new AbortController().signal;

/** A log that grows, and what was asked of it. */
class Server {
  readonly asked: (number | undefined)[] = [];
  readonly events: StoredEvent[] = [];
  fails = false;

  add(count: number): void {
    for (let each = 0; each < count; each++) {
      this.events.push({
        sequence_number: this.events.length,
        at_ms: null,
        event: { type: "response.output_text.delta" },
      });
    }
  }

  page = async (after: number | undefined): Promise<Page<StoredEvent>> => {
    this.asked.push(after);
    if (this.fails && after !== undefined) throw new Error("aborted");
    const found = this.events.slice((after ?? -1) + 1);
    return { object: "list", data: found.slice(0, PAGE_SIZE), has_more: found.length > PAGE_SIZE };
  };
}

function numbers(log: EventLog): number[] {
  return log.events.map((event) => event.sequence_number);
}

test("a log that grows is read on from its last event", async () => {
  const server = new Server();
  const log = new EventLog(server.page);
  server.add(3);
  await log.readOn(SIGNAL);
  server.add(1);
  assert.equal((await log.readOn(SIGNAL)).length, 4);
  await log.readOn(SIGNAL);
  assert.deepEqual(numbers(log), [0, 1, 2, 3]);
  assert.deepEqual(server.asked, [undefined, 1, 2, 3]);
});

test("the pages before a failure are kept", async () => {
  const server = new Server();
  const log = new EventLog(server.page);
  server.add(4);
  server.fails = true;
  await assert.rejects(log.readOn(SIGNAL));
  assert.deepEqual(numbers(log), [0, 1]);
  server.fails = false;
  await log.readOn(SIGNAL);
  assert.deepEqual(numbers(log), [0, 1, 2, 3]);
  assert.deepEqual(server.asked, [undefined, 1, 1]);
});

test("reads that overlap add no event twice", async () => {
  const server = new Server();
  const log = new EventLog(server.page);
  server.add(3);
  await Promise.all([log.readOn(SIGNAL), log.readOn(SIGNAL)]);
  assert.deepEqual(numbers(log), [0, 1, 2]);
});
