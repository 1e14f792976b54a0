import type { Page } from "./api.ts";
import type { StoredEvent } from "./trace.ts";

const MAX_EVENTS = 50_000;

export type LoadPage = (after: number | undefined, signal: AbortSignal) => Promise<Page<StoredEvent>>;

/** The stored events of one response: what was read is kept, also if a later page fails or is aborted. */
export class EventLog {
  readonly events: StoredEvent[] = [];
  readonly #load: LoadPage;

  constructor(load: LoadPage) {
    this.#load = load;
  }

  /** Reads the events after the last one, to the end of the log. */
  async readOn(signal: AbortSignal): Promise<readonly StoredEvent[]> {
    while (this.events.length < MAX_EVENTS) {
      const page = await this.#load(this.#last, signal);
      this.#add(page.data);
      if (page.has_more !== true || page.data.length === 0) break;
    }
    return this.events;
  }

  get #last(): number | undefined {
    return this.events.at(-1)?.sequence_number;
  }

  /** An aborted read may have added some of them. */
  #add(found: readonly StoredEvent[]): void {
    const last = this.#last ?? -1;
    this.events.push(...found.filter((event) => event.sequence_number > last));
  }
}
