import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { programFor } from "../src/lib/program.ts";
import {
  attachmentsOf,
  DEFAULT_OPTIONS,
  FieldError,
  inputOf,
  parametersOf,
} from "../src/views/playground/request.ts";

test("what is left empty is not sent", () => {
  assert.deepEqual(parametersOf(DEFAULT_OPTIONS), {});
});

test("options become parameters", () => {
  const body = parametersOf({
    ...DEFAULT_OPTIONS,
    temperature: "0",
    functions: '{"name": "f", "parameters": {}}',
    vectorStores: ["vs_1"],
    schema: '{"type": "object"}',
    effort: "low",
  });
  assert.deepEqual(body, {
    temperature: 0,
    reasoning: { effort: "low", summary: "auto" },
    tools: [
      { type: "function", name: "f", parameters: {} },
      { type: "file_search", vector_store_ids: ["vs_1"] },
    ],
    include: ["file_search_call.results"],
    text: { format: { type: "json_schema", name: "answer", schema: { type: "object" }, strict: true } },
  });
});

test("a field that cannot be sent is named", () => {
  assert.throws(
    () => parametersOf({ ...DEFAULT_OPTIONS, functions: "{" }),
    (error) => error instanceof FieldError && /^Functions: /.test(error.message),
  );
  assert.throws(() => parametersOf({ ...DEFAULT_OPTIONS, functions: "[1]" }), /list of objects/);
  assert.throws(() => parametersOf({ ...DEFAULT_OPTIONS, topP: "x" }), /Top p: “x” is not a number/);
});

test("a message that is edited keeps its attachments", () => {
  const attachments = [
    { name: "a.png", url: "data:image/png;base64,AA==", image: true },
    { name: "notes.txt", url: "data:text/plain;base64,aGk=", image: false },
  ];
  const edited = attachmentsOf(inputOf("Look at these.", attachments));
  assert.deepEqual(edited, [{ ...attachments[0], name: "image" }, attachments[1]]);
  assert.deepEqual(inputOf("Look at these.", edited), inputOf("Look at these.", attachments));
});

test("the copied curl command sends quotes and large attachments as they are", () => {
  const attachments = [{ name: "a.txt", url: `data:text/plain;base64,${"A".repeat(300_000)}`, image: false }];
  const body = { model: "m", input: inputOf("it's $HOME `id` \\ \nBODY\n", attachments) };
  const program = programFor("curl", body, { "antiphon-trace": "record" }, "http://127.0.0.1:1");
  const folder = mkdtempSync(join(tmpdir(), "curl-"));
  writeFileSync(join(folder, "curl"), '#!/bin/sh\nprintf "%s\\n" "$*" >&2\ncat\n', { mode: 0o755 });
  const env = { ...process.env, PATH: `${folder}:${process.env.PATH}`, OPENAI_API_KEY: "k" };
  const { stdout, stderr } = spawnSync("bash", { input: program, env, encoding: "utf8" });
  rmSync(folder, { recursive: true });
  assert.deepEqual(JSON.parse(stdout), body);
  assert.match(
    stderr,
    /v1\/responses -H Authorization: Bearer k .* -H antiphon-trace: record --data-binary @-/,
  );
});

test("the copied Python program has Python's literals", () => {
  const program = programFor(
    "Python",
    { model: "m", stream: true, a: null, list: [] },
    {},
    "http://127.0.0.1:1",
  );
  assert.match(program, /"stream": True,\n {4}"a": None,\n {4}"list": \[\],/);
});
