/** `GET /v1/responses/{id}/trace`. */
export interface Trace {
  readonly response_id: string;
  readonly request_id: string | null;
  readonly client_request: unknown;
  readonly clock: readonly ClockSpan[];
  readonly rounds: readonly TraceRound[];
}

export interface ClockSpan {
  readonly name: string;
  readonly label?: string | null;
  readonly start_ms: number;
  readonly end_ms: number | null;
  readonly item_id?: string | null;
}

export interface TraceRound {
  readonly index: number;
  readonly upstream: string;
  readonly kind?: string | null;
  readonly model?: string | null;
  /** Null for a backend without HTTP, and if nothing was sent. */
  readonly request: SentRequest | null;
  readonly answer: {
    readonly status?: number | null;
    readonly headers?: unknown;
    readonly body: string;
    readonly truncated?: boolean;
    readonly chunks?: readonly { readonly at_ms: number; readonly bytes: number }[];
  } | null;
  readonly downgrades: readonly unknown[];
  readonly attempts: readonly unknown[];
}

export interface SentRequest {
  readonly method?: string;
  readonly url?: string;
  readonly headers?: unknown;
  readonly body: unknown;
  readonly truncated?: boolean;
}

/** A stored event: `GET /v1/responses/{id}/events`. */
export interface StoredEvent {
  readonly sequence_number: number;
  readonly at_ms: number | null;
  readonly event: { readonly type: string; readonly [name: string]: unknown };
}
