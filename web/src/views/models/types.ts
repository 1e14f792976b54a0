export interface Quantiles {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

export interface Upstream {
  readonly name: string;
  readonly kind: string;
  readonly base_url: string;
  readonly models: readonly string[];
  readonly circuit: "closed" | "open" | "half_open";
  readonly retry_in: number | null;
  readonly last_error?: string | null;
  readonly requests: number;
  readonly failures: number;
  readonly first_token_ms: Quantiles | null;
  readonly concurrency: {
    readonly limit: number | null;
    readonly in_use: number;
    readonly waiting: number;
  } | null;
}

export interface Model {
  readonly id: string;
  readonly owned_by: string;
  /** `embedding`: not a model to talk to. */
  readonly kind?: string;
}

export interface Support {
  readonly level: "native" | "emulated" | "unsupported";
  readonly why?: string;
}

export interface Capabilities {
  readonly model: string;
  readonly backend: string;
  readonly dialect: string;
  readonly context_window: number | null;
  readonly features: Readonly<Record<string, Support>>;
  readonly tools: Readonly<Record<string, Support>>;
  readonly service: Readonly<Record<string, Support>>;
}

export interface Check {
  readonly name: string;
  readonly title?: string;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly detail?: string | null;
  readonly seconds?: number;
}
