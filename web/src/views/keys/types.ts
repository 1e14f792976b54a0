export interface Key {
  readonly id: string;
  readonly name: string;
  readonly tenant: string;
  readonly scopes: readonly string[];
  readonly tools?: readonly string[] | null;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly revoked_at?: number | null;
}

/** The answer to a request for a new key: the only one that has the key itself. */
export interface CreatedKey extends Key {
  readonly key: string;
}
