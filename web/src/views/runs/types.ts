/** `GET /v1/approvals`: what waits for a person. */
export interface Approval {
  readonly object: "approval";
  readonly id: string;
  readonly kind: "mcp" | "agent";
  readonly response_id?: string | null;
  readonly run_id?: string | null;
  readonly server_label?: string | null;
  readonly name: string;
  readonly arguments: string;
  readonly created_at: number;
}

/** A request of a run, as its tree has it. */
export type RunApproval = Pick<Approval, "id" | "kind" | "server_label" | "name" | "arguments">;

export interface Summary {
  readonly id: string;
  readonly status: string;
  readonly model: string;
  readonly created_at: number;
  readonly input_preview: string;
  readonly output_preview: string;
  readonly tools: readonly string[];
  readonly total_ms: number | null;
}

export interface Run {
  readonly id: string;
  readonly status: string;
  readonly title: string;
  readonly created_at: number;
  readonly ended_at: number | null;
  readonly attempts: number;
}

export interface RunCall {
  readonly call_id: string;
  readonly name: string;
  readonly arguments: string;
  readonly started: boolean;
  readonly outcome: string | null;
  readonly output: string;
  readonly elapsed_ms: number | null;
}

export interface RunTurn {
  readonly number: number;
  readonly text: string;
  readonly response_id: string | null;
  readonly finish_reason: string | null;
  readonly usage: Readonly<Record<string, number | null>>;
  readonly calls: readonly RunCall[];
}

export interface RunDetail extends Run {
  readonly tree: {
    readonly state: string;
    readonly mode: string;
    readonly model: string;
    readonly turns: readonly RunTurn[];
    readonly warnings: readonly string[];
    readonly error: string | null;
    readonly approvals: readonly RunApproval[];
  };
  readonly response: { readonly text?: string | null } | null;
}

export interface OutputItem {
  readonly id: string;
  readonly type: string;
  readonly status?: string;
  readonly name?: string;
  readonly arguments?: string;
  readonly content?: readonly { readonly text?: string }[];
  readonly summary?: readonly { readonly text?: string }[];
}

export interface ResponseObject {
  readonly id: string;
  readonly status: string;
  readonly model: string;
  readonly created_at: number;
  readonly background: boolean | null;
  readonly output: readonly OutputItem[];
  readonly error: { readonly code: string; readonly message: string } | null;
}
