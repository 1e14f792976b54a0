import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
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

test("the copied curl command survives quotes", () => {
  const body = { model: "m", input: inputOf("it's $HOME `id` \\", []) };
  const program = programFor("curl", body, { "antiphon-trace": "record" }, "http://127.0.0.1:1");
  const sent = execFileSync("bash", ["-c", program.replace("curl", 'f() { printf %s "${@: -1}"; }; f')], {
    encoding: "utf8",
  });
  assert.deepEqual(JSON.parse(sent), body);
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
