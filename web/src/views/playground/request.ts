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
  const parts: (Part & { readonly file_data?: string })[] = attachments.map(({ name, url, image }) =>
    image ? { type: "input_image", image_url: url } : { type: "input_file", filename: name, file_data: url },
  );
  if (text !== "") parts.push({ type: "input_text", text });
  return [{ type: "message", role: "user", content: parts }];
}

export type Language = "curl" | "Python" | "TypeScript";

/** A program that sends the request. It names no key: it reads one from the environment. */
export function programFor(
  language: Language,
  body: object,
  headers: Record<string, string>,
  origin: string,
): string {
  const json = JSON.stringify(body, null, 2);
  switch (language) {
    case "curl": {
      const lines = Object.entries(headers).map(([name, value]) => `  -H '${name}: ${value}' \\\n`);
      const quoted = json.replaceAll("'", "'\\''");
      return `curl ${origin}/v1/responses \\\n  -H "Authorization: Bearer $OPENAI_API_KEY" \\\n  -H 'content-type: application/json' \\\n${lines.join("")}  -d '${quoted}'\n`;
    }
    case "Python": {
      const extra = Object.keys(headers).length > 0 ? `, extra_headers=${pythonLiteral(headers, 0)}` : "";
      return `from openai import OpenAI\n\nclient = OpenAI(base_url="${origin}/v1")\nrequest = ${pythonLiteral(body, 0)}\nresponse = client.responses.create(**request${extra})\nprint(response.output_text)\n`;
    }
    case "TypeScript": {
      const extra = Object.keys(headers).length > 0 ? `, { headers: ${JSON.stringify(headers)} }` : "";
      return `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${origin}/v1" });\nconst response = await client.responses.create(${json}${extra});\nconsole.log(response.output_text);\n`;
    }
  }
}

function pythonLiteral(value: unknown, depth: number): string {
  const indent = "    ".repeat(depth + 1);
  const end = "    ".repeat(depth);
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((one) => `${indent}${pythonLiteral(one, depth + 1)},\n`).join("")}${end}]`;
  }
  if (typeof value === "object") {
    const entries = Object.entries(value).map(
      ([key, one]) => `${indent}${JSON.stringify(key)}: ${pythonLiteral(one, depth + 1)},\n`,
    );
    return entries.length === 0 ? "{}" : `{\n${entries.join("")}${end}}`;
  }
  return JSON.stringify(value);
}
