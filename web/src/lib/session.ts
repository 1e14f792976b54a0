import { signal } from "@preact/signals";

/** `GET /v1/session`. */
export interface Session {
  readonly object: "session";
  readonly signed_in: boolean;
  readonly needs_key: boolean;
  readonly tenant: string | null;
  readonly key_id: string | null;
  readonly key_name: string | null;
  readonly scopes: readonly string[];
  readonly admin: boolean;
  readonly csrf: string | null;
  readonly version: string;
}

/** Undefined until the server has answered. */
export const session = signal<Session | undefined>(undefined);

/** True while a request waits for the person to sign in again. */
export const sessionExpired = signal(false);

export type Scope = "read" | "write" | "delete" | "admin";

/** Why an action is not available, as a sentence; undefined if it is. */
export function whyNot(scope: Scope): string | undefined {
  const current = session.value;
  if (current === undefined) return "The server has not answered yet.";
  if (!current.needs_key) return undefined;
  if (!current.signed_in) return "Sign in first.";
  if (scope === "admin" ? current.admin : current.scopes.includes(`responses:${scope}`)) return undefined;
  return `This key has no “${scope}” scope. Sign in with a key that has it.`;
}
