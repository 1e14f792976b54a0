import type { Json } from "../../lib/api.ts";
import type { Item, Part } from "../../lib/types.ts";

/** What the side panel sets. Texts are as they are typed; `bodyOf` checks them. */
export interface Options {
  readonly instructions: string;
  readonly effort: string;
  readonly temperature: string;
  readonly topP: string;
  readonly maxOutputTokens: string;
  readonly functions: string;
  readonly mcpServers: string;
  readonly vectorStores: readonly string[];
  readonly webSearch: boolean;
  readonly interpreter: boolean;
  readonly schema: string;
  readonly profile: string;
  readonly background: boolean;
  readonly trace: boolean;
}

export const DEFAULT_OPTIONS: Options = {
  instructions: "",
  effort: "",
  temperature: "",
  topP: "",
  maxOutputTokens: "",
  functions: "",
  mcpServers: "",
  vectorStores: [],
  webSearch: false,
  interpreter: false,
  schema: "",
  profile: "",
  background: false,
  trace: false,
};

export interface Attachment {
  readonly name: string;
  /** A data URL. */
  readonly url: string;
  readonly image: boolean;
}

/** A field that cannot be sent as it is; `message` says where and why. */
export class FieldError extends Error {}

function parsed(field: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new FieldError(`${field}: ${(error as Error).message}. Correct the JSON and send again.`);
  }
}

function listIn(field: string, text: string): Record<string, Json>[] {
  if (text.trim() === "") return [];
  const value = parsed(field, text);
  const list = Array.isArray(value) ? value : [value];
  if (!list.every((one) => one !== null && typeof one === "object" && !Array.isArray(one))) {
    throw new FieldError(`${field}: write a JSON object, or a list of objects.`);
  }
  return list as Record<string, Json>[];
}

function numberIn(field: string, text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value)) throw new FieldError(`${field}: “${text}” is not a number.`);
  return value;
}

export function toolsOf(options: Options): Record<string, Json>[] {
  const tools = [
    ...listIn("Functions", options.functions).map((tool) => ({ type: "function", ...tool })),
    ...listIn("MCP servers", options.mcpServers).map((server) => ({ type: "mcp", ...server })),
  ] as Record<string, Json>[];
  if (options.vectorStores.length > 0)
    tools.push({ type: "file_search", vector_store_ids: options.vectorStores });
  if (options.webSearch) tools.push({ type: "web_search" });
  if (options.interpreter) tools.push({ type: "code_interpreter", container: { type: "auto" } });
  return tools;
}

function formatOf(schema: string): Record<string, unknown> {
  const value = parsed("Schema", schema) as Record<string, unknown>;
  // A whole format, or only its schema.
  return value.type === "json_schema"
    ? value
    : { type: "json_schema", name: "answer", schema: value, strict: true };
}

/** The parameters that the options set, and no others: what is left empty is the server's default. */
export function parametersOf(options: Options): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  if (options.instructions.trim() !== "") body.instructions = options.instructions;
  if (options.effort !== "") body.reasoning = { effort: options.effort, summary: "auto" };
  if (options.temperature !== "") body.temperature = numberIn("Temperature", options.temperature);
  if (options.topP !== "") body.top_p = numberIn("Top p", options.topP);
  if (options.maxOutputTokens !== "")
    body.max_output_tokens = numberIn("Max. output tokens", options.maxOutputTokens);
  const tools = toolsOf(options);
  if (tools.length > 0) body.tools = tools;
  if (options.vectorStores.length > 0) body.include = ["file_search_call.results"];
  if (options.schema.trim() !== "") body.text = { format: formatOf(options.schema) };
  if (options.background) body.background = true;
  return body;
}

export function headersOf(options: Options): Record<string, string> {
  return {
    ...(options.profile === "" ? {} : { "x-antiphon-profile": options.profile }),
    ...(options.trace ? { "antiphon-trace": "record" } : {}),
  };
}

/** The input items of a message with its attachments. */
export function inputOf(text: string, attachments: readonly Attachment[]): Item[] {
  const parts: Part[] = attachments.map(({ name, url, image }) =>
    image ? { type: "input_image", image_url: url } : { type: "input_file", filename: name, file_data: url },
  );
  if (text !== "") parts.push({ type: "input_text", text });
  return [{ type: "message", role: "user", content: parts }];
}

/** The text of a message. */
export function textOf(input: readonly Item[]): string {
  return partsOf(input)
    .map(({ text }) => text ?? "")
    .join("\n")
    .trim();
}

/** The attachments of a message. The API keeps no names of images. */
export function attachmentsOf(input: readonly Item[]): Attachment[] {
  return partsOf(input).flatMap(({ image_url, file_data, filename = "file" }): Attachment[] => {
    if (image_url != null) return [{ name: "image", url: image_url, image: true }];
    return file_data === undefined ? [] : [{ name: filename, url: file_data, image: false }];
  });
}

function partsOf(input: readonly Item[]): Part[] {
  return input.flatMap(({ content }) => (Array.isArray(content) ? (content as Part[]) : []));
}
