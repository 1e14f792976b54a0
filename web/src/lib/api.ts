import { type Session, session, sessionExpired } from "./session.ts";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** An error of the API, or of the connection to it. `message` says what happened and what to do. */
export class ApiError extends Error {
  readonly status: number;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
  readonly requestId: string | null;

  constructor(message: string, details: Partial<Omit<ApiError, "message">> = {}) {
    super(message);
    this.name = "ApiError";
    this.status = details.status ?? 0;
    this.type = details.type ?? "connection_error";
    this.param = details.param ?? null;
    this.code = details.code ?? null;
    this.requestId = details.requestId ?? null;
  }
}

export interface Page<T> {
  readonly object: "list";
  readonly data: readonly T[];
  readonly first_id?: string | null;
  readonly last_id?: string | null;
  readonly has_more?: boolean;
}

export type Query = Readonly<
  Record<string, string | number | boolean | readonly string[] | null | undefined>
>;

export interface Call {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly query?: Query;
  /** Sent as JSON, unless it is a form. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export function pathWith(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    if (Array.isArray(value)) for (const one of value) params.append(name, String(one));
    else params.set(name, String(value));
  }
  const text = params.toString();
  return text === "" ? path : `${path}?${text}`;
}

function headersOf(call: Call): Headers {
  const headers = new Headers(call.headers);
  const csrf = session.value?.csrf;
  if (csrf != null) headers.set("antiphon-csrf", csrf);
  if (call.body !== undefined && !(call.body instanceof FormData))
    headers.set("content-type", "application/json");
  return headers;
}

export async function errorOf(response: Response): Promise<ApiError> {
  const requestId = response.headers.get("x-request-id");
  const text = await response.text().catch(() => "");
  try {
    const { error } = JSON.parse(text) as {
      error: { message: string; type: string; param?: string; code?: string };
    };
    return new ApiError(error.message, {
      status: response.status,
      type: error.type,
      param: error.param ?? null,
      code: error.code ?? null,
      requestId,
    });
  } catch {
    const said = text.trim().slice(0, 300);
    return new ApiError(
      `The server answered with status ${response.status}.${said === "" ? "" : ` ${said}`}`,
      {
        status: response.status,
        type: "server_error",
        requestId,
      },
    );
  }
}

async function sendOnce(path: string, call: Call): Promise<Response> {
  const { body } = call;
  try {
    return await fetch(pathWith(path, call.query), {
      method: call.method ?? "GET",
      headers: headersOf(call),
      credentials: "same-origin",
      ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
      ...(call.signal === undefined ? {} : { signal: call.signal }),
    });
  } catch (cause) {
    if (call.signal?.aborted) throw cause;
    throw new ApiError("The server cannot be reached. Check that it runs, then try again.");
  }
}

const waitingForSignIn: ((signedIn: boolean) => void)[] = [];

/** Whether the person has signed in again, once that is known. */
function signedInAgain(): Promise<boolean> {
  sessionExpired.value = true;
  return new Promise((resolve) => waitingForSignIn.push(resolve));
}

/** Sends the requests that wait for a session, or lets them fail. */
function endWaiting(signedIn: boolean): void {
  sessionExpired.value = false;
  for (const resolve of waitingForSignIn.splice(0)) resolve(signedIn);
}

/** The person does not sign in again: what waits fails, and the page stays as it is. */
export function declineSignIn(): void {
  endWaiting(false);
}

/** The response of a request that succeeded. */
export function send(path: string, call: Call = {}): Promise<Response> {
  return sendBy(() => sendOnce(path, call), path !== "/v1/session");
}

/** Sends a request by `attempt`, and again after sign-in if its session has expired and it `needsSession`. */
export async function sendBy(attempt: () => Promise<Response>, needsSession = true): Promise<Response> {
  let response = await attempt();
  while (response.status === 401 && session.value?.needs_key && needsSession) {
    if (!(await signedInAgain())) break;
    response = await attempt();
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function request<T>(path: string, call: Call = {}): Promise<T> {
  const response = await send(path, call);
  return (await response.json()) as T;
}

export async function loadSession(): Promise<Session> {
  const loaded = await request<Session>("/v1/session");
  session.value = loaded;
  return loaded;
}

export async function signIn(apiKey: string): Promise<void> {
  session.value = await request<Session>("/v1/session", { method: "POST", body: { api_key: apiKey } });
  endWaiting(true);
}

export async function signOut(): Promise<void> {
  await send("/v1/session", { method: "DELETE" });
  await loadSession();
}

export interface Paging {
  readonly query?: Query;
  /** The most entries that are read. */
  readonly limit?: number;
  readonly signal?: AbortSignal;
}

/** The pages of a list, as they arrive. */
export async function* pagesOf<T extends { readonly id: string }>(
  path: string,
  { query = {}, limit = 1000, signal }: Paging = {},
): AsyncGenerator<readonly T[]> {
  let after: string | undefined;
  for (let read = 0; read < limit; ) {
    const call: Call = {
      query: { limit: 100, ...query, after },
      ...(signal === undefined ? {} : { signal }),
    };
    const page = await request<Page<T>>(path, call);
    yield page.data;
    read += page.data.length;
    after = page.data.at(-1)?.id;
    if (!page.has_more || after === undefined) break;
  }
}

/** Every entry of a list, up to `limit`. */
export async function listAll<T extends { readonly id: string }>(
  path: string,
  paging: Paging = {},
): Promise<T[]> {
  const found: T[] = [];
  for await (const page of pagesOf<T>(path, paging)) found.push(...page);
  return found;
}
