export interface VectorStore {
  readonly id: string;
  readonly name: string | null;
  readonly status: string;
  readonly created_at: number;
  readonly last_active_at: number;
  readonly usage_bytes: number;
  readonly file_counts: {
    readonly total: number;
    readonly completed: number;
    readonly in_progress: number;
    readonly failed: number;
    readonly cancelled: number;
  };
}

export interface StoreFile {
  readonly id: string;
  readonly status: string;
  readonly created_at: number;
  readonly usage_bytes: number;
  readonly last_error: { readonly code: string; readonly message: string } | null;
  readonly chunking_strategy: {
    readonly static?: { readonly max_chunk_size_tokens: number; readonly chunk_overlap_tokens: number };
  };
}

export interface Result {
  readonly file_id: string;
  readonly filename: string;
  readonly scores: { readonly text: number; readonly vector: number; readonly mixed: number };
  readonly content: readonly { readonly text: string }[];
}
