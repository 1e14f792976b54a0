/** Reads server-sent events incrementally. Only what the API sends is supported: `event`, `data` and comments. */
export interface ServerSentEvent {
  readonly event: string;
  readonly data: string;
}

export class SseParser {
  #rest = "";
  #event = "";
  #data: string[] = [];

  /** The events that are complete after this text. */
  push(text: string): ServerSentEvent[] {
    const complete: ServerSentEvent[] = [];
    const whole = this.#rest + text;
    let start = 0;
    for (let end = lineEnd(whole, start); end !== -1; end = lineEnd(whole, start)) {
      const event = this.#line(whole.slice(start, end));
      if (event !== undefined) complete.push(event);
      start = end + (whole[end] === "\r" && whole[end + 1] === "\n" ? 2 : 1);
    }
    this.#rest = whole.slice(start);
    return complete;
  }

  #line(line: string): ServerSentEvent | undefined {
    if (line === "") {
      const event = { event: this.#event, data: this.#data.join("\n") };
      const has = this.#data.length > 0;
      this.#event = "";
      this.#data = [];
      return has ? event : undefined;
    }
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    return undefined;
  }
}

/** Where the line ends, or -1. A `\r` at the very end may be the first half of `\r\n`: it waits. */
function lineEnd(text: string, start: number): number {
  const feed = text.indexOf("\n", start);
  const carriage = text.slice(start, feed === -1 ? undefined : feed).indexOf("\r");
  if (carriage === -1) return feed;
  const at = start + carriage;
  return at === text.length - 1 ? -1 : at;
}

/** The events of a body, as they arrive. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  const parser = new SseParser();
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read())
      yield* parser.push(part.value);
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
