import { useState } from "preact/hooks";
import type { LiveItem } from "../lib/live.ts";
import { prettyJson } from "../lib/pretty-json.ts";
import type { Annotation, Item, Part } from "../lib/types.ts";
import { Citations } from "./citations.tsx";
import { JsonTree } from "./json.tsx";
import { CodeBlock, Markdown, StreamedMarkdown } from "./markdown.tsx";
import { LongText, Pre, Text } from "./plain-text.tsx";

export interface ItemProps {
  readonly item: Item;
  /** While it is streamed, and afterwards in the page that streamed it. */
  readonly live?: LiveItem | undefined;
  /** The other items of the response: a citation finds its passage there. */
  readonly siblings?: readonly Item[];
}

const TITLES: Readonly<Record<string, string>> = {
  function_call: "Function call",
  function_call_output: "Function output",
  custom_tool_call: "Custom tool call",
  custom_tool_call_output: "Custom tool output",
  web_search_call: "Web search",
  file_search_call: "File search",
  code_interpreter_call: "Code interpreter",
  image_generation_call: "Image generation",
  mcp_call: "MCP call",
  mcp_list_tools: "MCP tools",
  mcp_approval_request: "Approval request",
  mcp_approval_response: "Approval",
  reasoning: "Reasoning",
  compaction: "Compaction",
};

export function titleOf(item: Item): string {
  if (item.type === "message" || item.role !== undefined) return item.role ?? "message";
  const name = [item.server_label, item.name].filter(Boolean).join(" · ");
  return `${TITLES[item.type] ?? item.type.replaceAll("_", " ")}${name === "" ? "" : `: ${name}`}`;
}

/** An item of any type. A type without a form of its own is shown as JSON. */
export function ItemView({ item, live, siblings = [] }: ItemProps) {
  const [raw, setRaw] = useState(false);
  const kind = item.type === "message" || item.role !== undefined ? `message ${item.role ?? ""}` : item.type;
  return (
    <article class={`item ${kind}`}>
      <header>
        <span class="item-title">
          <Text text={titleOf(item)} />
        </span>
        {live !== undefined && !live.done && <span class="badge busy">{live.stage || "in progress"}</span>}
        {item.status !== undefined && item.status !== "completed" && (live?.done ?? true) && (
          <span class="badge warn">{item.status}</span>
        )}
        <button type="button" class="link json-switch" aria-pressed={raw} onClick={() => setRaw(!raw)}>
          {"{}"}
          <span class="visually-hidden"> Show as JSON</span>
        </button>
      </header>
      {raw ? <JsonTree value={item} /> : <Body item={item} live={live} siblings={siblings} />}
    </article>
  );
}

function Body({
  item,
  live,
  siblings,
}: Required<Pick<ItemProps, "item" | "siblings">> & Pick<ItemProps, "live">) {
  if (item.type === "message" || item.role !== undefined)
    return <Message item={item} live={live} siblings={siblings} />;
  switch (item.type) {
    case "reasoning":
      return <Reasoning item={item} live={live} />;
    case "function_call":
    case "mcp_call":
    case "mcp_approval_request":
      return <CallBody item={item} live={live} />;
    case "custom_tool_call":
      return <CodeBlock text={item.input ?? liveText(live, "input")} />;
    case "function_call_output":
    case "custom_tool_call_output":
      return <Output value={item.output} />;
    case "code_interpreter_call":
      return <Interpreter item={item} live={live} />;
    case "image_generation_call":
      return <Picture base64={item.result ?? live?.image ?? undefined} />;
    case "web_search_call":
      return <p class="mono">{<LongText text={item.action?.query ?? item.action?.url ?? ""} />}</p>;
    case "file_search_call":
      return <Passages item={item} />;
    default:
      return <JsonTree value={item} depth={1} />;
  }
}

function liveText(live: LiveItem | undefined, kind: string): string {
  const text = live?.texts.get(`${kind}:0`);
  return text === undefined ? "" : text.settled.join("") + text.tail;
}

function liveTexts(live: LiveItem | undefined, ...kinds: readonly string[]) {
  return [...(live?.texts ?? [])].filter(([key]) => kinds.includes(key.split(":")[0] ?? ""));
}

function Message({
  item,
  live,
  siblings,
}: {
  item: Item;
  live: LiveItem | undefined;
  siblings: readonly Item[];
}) {
  const streamed = liveTexts(live, "text", "refusal");
  const parts =
    typeof item.content === "string" ? [{ type: "input_text", text: item.content }] : (item.content ?? []);
  const annotations: readonly Annotation[] = live?.done
    ? parts.flatMap((part) => part.annotations ?? [])
    : (live?.annotations ?? parts.flatMap((part) => part.annotations ?? []));
  return (
    <>
      {streamed.length > 0
        ? streamed.map(([key, text]) => (
            <StreamedMarkdown key={key} settled={text.settled} tail={text.tail} />
          ))
        : parts.map((part, index) => <PartView key={index} part={part} />)}
      {annotations.length > 0 && <Citations annotations={annotations} siblings={siblings} />}
    </>
  );
}

function PartView({ part }: { part: Part }) {
  if (part.text !== undefined) {
    return part.type === "input_text" ? (
      <p class="pre-wrap">
        <LongText text={part.text} />
      </p>
    ) : (
      <Markdown text={part.text} />
    );
  }
  if (part.refusal !== undefined) return <p class="refusal">{<LongText text={part.refusal} />}</p>;
  if (part.image_url?.startsWith("data:image/"))
    return <img class="picture" src={part.image_url} alt="Attached" />;
  if (part.type === "input_file" || part.type === "input_image") {
    return (
      <p class="muted">
        Attached: {<Text text={part.filename ?? part.file_id ?? part.image_url ?? part.type} />}
      </p>
    );
  }
  return <JsonTree value={part} depth={1} />;
}

function Reasoning({ item, live }: { item: Item; live: LiveItem | undefined }) {
  const streamed = liveTexts(live, "summary", "reasoning");
  const parts = [...(item.summary ?? []), ...(typeof item.content === "string" ? [] : (item.content ?? []))];
  if (streamed.length === 0 && parts.length === 0)
    return <p class="muted">Sealed: the model's server keeps it private.</p>;
  return (
    <details open={live !== undefined}>
      <summary>Thoughts</summary>
      <div class="thoughts">
        {streamed.length > 0
          ? streamed.map(([key, text]) => (
              <StreamedMarkdown key={key} settled={text.settled} tail={text.tail} />
            ))
          : parts.map((part, index) => <Markdown key={index} text={part.text ?? ""} />)}
      </div>
    </details>
  );
}

function CallBody({ item, live }: { item: Item; live: LiveItem | undefined }) {
  const given =
    item.arguments === undefined || item.arguments === "" ? liveText(live, "arguments") : item.arguments;
  return (
    <>
      <CodeBlock text={live === undefined || live.done ? prettyJson(given) : given} language="json" />
      {item.output !== undefined && item.output !== null && <Output value={item.output} />}
      {item.error !== undefined && item.error !== null && <Output value={item.error} />}
    </>
  );
}

export function Output({ value }: { value: unknown }) {
  if (Array.isArray(value))
    return (
      <>
        {(value as Part[]).map((part, index) => (
          <PartView key={index} part={part} />
        ))}
      </>
    );
  return <Pre text={typeof value === "string" ? prettyJson(value) : JSON.stringify(value, null, 2)} />;
}

function Interpreter({ item, live }: { item: Item; live: LiveItem | undefined }) {
  return (
    <>
      <CodeBlock text={item.code ?? liveText(live, "code")} language="python" />
      {item.outputs?.map((output, index) =>
        output.logs !== undefined ? (
          <Pre key={index} text={output.logs} />
        ) : output.url?.startsWith("data:image/") ? (
          <img key={index} class="picture" src={output.url} alt="Made by the code" />
        ) : (
          <JsonTree key={index} value={output} depth={1} />
        ),
      )}
    </>
  );
}

const IMAGE_STARTS: readonly (readonly [string, string])[] = [
  ["/9j/", "image/jpeg"],
  ["UklGR", "image/webp"],
  ["R0lGOD", "image/gif"],
];

function Picture({ base64 }: { base64: string | undefined }) {
  if (base64 === undefined) return <div class="picture-place" />;
  const type = IMAGE_STARTS.find(([start]) => base64.startsWith(start))?.[1] ?? "image/png";
  return <img class="picture" src={`data:${type};base64,${base64}`} alt="Made by the model" />;
}

function Passages({ item }: { item: Item }) {
  return (
    <>
      <p class="mono">{<LongText text={(item.queries ?? []).join(" · ")} />}</p>
      {(item.results ?? []).map((hit, index) => (
        <details key={index}>
          <summary>
            <Text text={hit.filename ?? hit.file_id ?? "passage"} />
            {hit.score !== undefined && <span class="muted"> {hit.score.toFixed(3)}</span>}
          </summary>
          <Pre text={hit.text ?? ""} />
        </details>
      ))}
    </>
  );
}
