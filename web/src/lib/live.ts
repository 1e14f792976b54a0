import { SettledText } from "./markdown.ts";
import type { Annotation, Item, ResponseEvent, ResponseObject } from "./types.ts";

/** An item of a response that is being streamed. */
export interface LiveItem {
  item: Item;
  done: boolean;
  /** What a hosted tool does: `searching`, `interpreting`. */
  stage: string;
  image: string | undefined;
  readonly annotations: Annotation[];
  /** By kind and index: `text:0`, `summary:1`, `arguments:0`. */
  readonly texts: Map<string, SettledText>;
}

const DELTA_KEYS: Readonly<Record<string, string>> = {
  "response.output_text.delta": "text",
  "response.refusal.delta": "refusal",
  "response.reasoning_summary_text.delta": "summary",
  "response.reasoning_text.delta": "reasoning",
  "response.function_call_arguments.delta": "arguments",
  "response.mcp_call_arguments.delta": "arguments",
  "response.custom_tool_call_input.delta": "input",
  "response.code_interpreter_call_code.delta": "code",
};

/** The state of one response, built from the events of its stream. */
export class LiveResponse {
  response: ResponseObject | undefined;
  error: { message: string; code: string | null } | undefined;
  readonly items: LiveItem[] = [];
  lastSequence = -1;
  events = 0;
  firstTokenMs: number | undefined;
  readonly startedAt: number;

  constructor(startedAt = performance.now()) {
    this.startedAt = startedAt;
  }

  get finished(): boolean {
    return (
      this.error !== undefined ||
      (this.response !== undefined && !["queued", "in_progress"].includes(this.response.status))
    );
  }

  apply(event: ResponseEvent): void {
    const { sequence_number: sequence } = event;
    if (sequence !== undefined) {
      // A resumed stream may repeat what was already applied.
      if (sequence <= this.lastSequence) return;
      this.lastSequence = sequence;
    }
    this.events += 1;
    if (event.response !== undefined) this.response = event.response;
    const failure = event.response?.error;
    if (event.type === "response.failed" && failure != null) this.error = { ...failure };
    if (event.type === "error")
      this.error = { message: event.message ?? "The stream failed.", code: event.code ?? null };
    if (event.output_index !== undefined) this.#applyToItem(event, event.output_index);
  }

  #applyToItem(event: ResponseEvent, index: number): void {
    if (event.type === "response.output_item.added" && event.item !== undefined) {
      this.items[index] = newItem(event.item);
      return;
    }
    const live = this.items[index];
    if (live === undefined) return;
    const kind = DELTA_KEYS[event.type];
    if (kind !== undefined) {
      this.firstTokenMs ??= performance.now() - this.startedAt;
      textOf(live, `${kind}:${event.summary_index ?? event.content_index ?? 0}`).append(event.delta ?? "");
    } else if (event.type === "response.output_item.done" && event.item !== undefined) {
      live.item = event.item;
      live.done = true;
    } else if (event.annotation !== undefined) live.annotations.push(event.annotation);
    else if (event.partial_image_b64 !== undefined) live.image = event.partial_image_b64;
    else if (/_call\.|_tools\./.test(event.type))
      live.stage = (event.type.split(".").at(-1) ?? "").replaceAll("_", " ");
  }
}

function newItem(item: Item): LiveItem {
  return { item, done: false, stage: "", image: undefined, annotations: [], texts: new Map() };
}

function textOf(live: LiveItem, key: string): SettledText {
  const found = live.texts.get(key);
  if (found !== undefined) return found;
  const made = new SettledText();
  live.texts.set(key, made);
  return made;
}
