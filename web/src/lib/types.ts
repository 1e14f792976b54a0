/** What the page reads of the API's objects. Unknown members stay in the object and are shown as JSON. */
export interface Item {
  readonly type: string;
  readonly id?: string;
  readonly status?: string;
  readonly role?: string;
  readonly content?: string | readonly Part[] | null;
  readonly summary?: readonly Part[];
  readonly name?: string;
  readonly server_label?: string;
  readonly call_id?: string;
  readonly arguments?: string;
  readonly input?: string;
  readonly output?: unknown;
  readonly code?: string | null;
  readonly outputs?:
    | readonly { readonly type: string; readonly logs?: string; readonly url?: string }[]
    | null;
  readonly queries?: readonly string[];
  readonly results?: readonly SearchHit[] | null;
  readonly action?: { readonly type?: string; readonly query?: string; readonly url?: string };
  readonly result?: string | null;
  readonly error?: unknown;
  readonly tools?: readonly { readonly name: string }[];
  readonly approve?: boolean;
}

export interface SearchHit {
  readonly file_id?: string;
  readonly filename?: string;
  readonly score?: number;
  readonly text?: string;
  readonly antiphon?: PassagePlace;
}

/** Where a passage is in its vector store. A page of the web has none. */
export interface PassagePlace {
  readonly vector_store_id?: string;
  readonly chunk?: number;
  readonly label?: string;
}

export interface Part {
  readonly type: string;
  readonly text?: string;
  readonly refusal?: string;
  readonly image_url?: string | null;
  readonly filename?: string;
  readonly file_id?: string;
  readonly file_data?: string;
  readonly annotations?: readonly Annotation[];
}

export interface Annotation {
  readonly type: string;
  readonly title?: string;
  readonly url?: string;
  readonly file_id?: string;
  readonly filename?: string;
  readonly index?: number;
  readonly start_index?: number;
  readonly end_index?: number;
  readonly antiphon?: PassagePlace;
}

export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens?: number;
  readonly input_tokens_details?: { readonly cached_tokens?: number };
  readonly output_tokens_details?: { readonly reasoning_tokens?: number };
}

export interface ResponseObject {
  readonly id: string;
  readonly status: string;
  readonly model: string;
  readonly created_at: number;
  readonly completed_at?: number | null;
  readonly previous_response_id?: string | null;
  readonly conversation?: { readonly id: string } | null;
  readonly background?: boolean | null;
  readonly output: readonly Item[];
  readonly usage?: Usage | null;
  readonly error?: { readonly code: string; readonly message: string } | null;
  readonly incomplete_details?: { readonly reason: string } | null;
  readonly downgrades?: readonly string[];
  readonly [name: string]: unknown;
}

/** One event of a response's stream. */
export interface ResponseEvent {
  readonly type: string;
  readonly sequence_number?: number;
  readonly output_index?: number;
  readonly content_index?: number;
  readonly summary_index?: number;
  readonly delta?: string;
  readonly item?: Item;
  readonly response?: ResponseObject;
  readonly annotation?: Annotation;
  readonly partial_image_b64?: string;
  readonly message?: string;
  readonly code?: string | null;
  readonly param?: string | null;
}

export interface ResponseSummary {
  readonly id: string;
  readonly status: string;
  readonly model: string;
  readonly created_at: number;
  readonly completed_at: number | null;
  readonly previous_response_id: string | null;
  readonly conversation: string | null;
  readonly background: boolean;
  readonly key_id: string | null;
  readonly tools: readonly string[];
  readonly input_preview: string | null;
  readonly output_preview: string | null;
  readonly usage: Usage | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly first_token_ms: number | null;
  readonly total_ms: number | null;
  readonly upstream: string | null;
  readonly trace: boolean;
  readonly forks: number;
}

const FINAL = ["completed", "failed", "cancelled", "incomplete"];

/** False for work that waits for an approval as well. */
export function isFinal(status: string): boolean {
  return FINAL.includes(status);
}
