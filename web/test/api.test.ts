import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { ApiError, declineSignIn, listAll, pathWith, request, signIn } from "../src/lib/api.ts";
import { session, sessionExpired } from "../src/lib/session.ts";

const SIGNED_IN = {
  object: "session",
  signed_in: true,
  needs_key: true,
  tenant: "default",
  key_id: "key_1",
  key_name: null,
  scopes: ["responses:read"],
  admin: false,
  csrf: "token",
  version: "0",
} as const;
const UNAUTHORIZED = {
  error: { message: "Sign in.", type: "invalid_request_error", param: null, code: "invalid_api_key" },
};
const realFetch = globalThis.fetch;
let sent: { path: string; init: RequestInit }[] = [];

function answerWith(...answers: readonly (readonly [number, unknown])[]): void {
  const waiting = [...answers];
  globalThis.fetch = async (path, init = {}) => {
    sent.push({ path: String(path), init });
    const [status, body] = waiting.shift() ?? [500, ""];
    return new Response(typeof body === "string" ? body : JSON.stringify(body), {
      status,
      headers: { "x-request-id": "req_1" },
    });
  };
}

beforeEach(() => {
  sent = [];
  session.value = SIGNED_IN;
});

afterEach(() => {
  globalThis.fetch = realFetch;
});

test("every request carries the session's token", async () => {
  answerWith([200, { ok: true }]);
  await request("/v1/x", { method: "POST", body: { a: 1 } });
  const headers = sent[0]?.init.headers as Headers;
  assert.equal(headers.get("antiphon-csrf"), "token");
  assert.equal(headers.get("content-type"), "application/json");
});

test("an error carries message, parameter, code and request id", async () => {
  answerWith([
    400,
    { error: { message: "No.", type: "invalid_request_error", param: "model", code: "bad" } },
  ]);
  await assert.rejects(request("/v1/x"), (error) => {
    assert.ok(error instanceof ApiError);
    assert.deepEqual(
      [error.message, error.status, error.param, error.code, error.requestId],
      ["No.", 400, "model", "bad", "req_1"],
    );
    return true;
  });
});

test("an answer that is no error object is shown as it is", async () => {
  answerWith([502, "<h1>Bad gateway</h1>"]);
  await assert.rejects(request("/v1/x"), /status 502. <h1>Bad gateway<\/h1>/);
});

test("a request whose session has expired is sent again after sign-in", async () => {
  answerWith([401, UNAUTHORIZED], [200, { ...SIGNED_IN, csrf: "new" }], [200, { ok: true }]);
  const waiting = request("/v1/x");
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(sessionExpired.value, true);
  await signIn("key");
  assert.deepEqual(await waiting, { ok: true });
  assert.equal((sent[2]?.init.headers as Headers | undefined)?.get("antiphon-csrf"), "new");
  assert.equal(sessionExpired.value, false);
});

test("who declines to sign in sees the error", async () => {
  answerWith([401, UNAUTHORIZED]);
  const waiting = request("/v1/x");
  await new Promise((resolve) => setTimeout(resolve));
  declineSignIn();
  await assert.rejects(waiting, /Sign in\./);
});

test("a list is read page by page up to its limit", async () => {
  answerWith([200, { data: [{ id: "a" }], has_more: true }], [200, { data: [{ id: "b" }], has_more: false }]);
  assert.deepEqual(await listAll("/v1/x"), [{ id: "a" }, { id: "b" }]);
  assert.equal(sent[1]?.path, "/v1/x?limit=100&after=a");
});

test("what is undefined or empty is left out of an address", () => {
  assert.equal(pathWith("/v1/x", { a: undefined, b: "", c: null, d: 0, e: ["1", "2"] }), "/v1/x?d=0&e=1&e=2");
});
