import type { Quantiles } from "../models/types.ts";

export interface Bucket {
  readonly object: "usage.bucket";
  readonly start: number;
  readonly model: string | null;
  readonly key_id: string | null;
  readonly upstream: string | null;
  readonly responses: number;
  readonly errors: number;
  readonly input_tokens: number;
  readonly cached_tokens: number;
  readonly output_tokens: number;
  readonly reasoning_tokens: number;
  readonly tool_calls: number;
  readonly first_token_ms: Quantiles | null;
  readonly total_ms: Quantiles | null;
}

/** Lines over time. `values` has one entry for each of `starts`; null where nothing was measured. */
export interface Plotted {
  readonly title: string;
  readonly unit: "count" | "ms";
  readonly starts: readonly number[];
  readonly lines: readonly { readonly label: string; readonly values: readonly (number | null)[] }[];
}
