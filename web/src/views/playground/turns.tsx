import { useEffect, useRef, useState } from "preact/hooks";
import { Action, CopyButton } from "../../components/buttons.tsx";
import { Downgrades } from "../../components/downgrades.tsx";
import { ItemView } from "../../components/item.tsx";
import { CodeBlock } from "../../components/markdown.tsx";
import { ErrorState } from "../../components/states.tsx";
import { count, duration, prettyJson } from "../../lib/format.ts";
import { placeTo } from "../../lib/router.ts";
import type { Item, Part } from "../../lib/types.ts";
import { branchBefore, type Column, draft, start, type Turn } from "./state.ts";

/** The turns of a column, kept at the end while the person is at the end. */
export function Turns({ column }: { column: Column }) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const turns = column.turns.value;
  const last = turns.at(-1);
  const version = last?.version.value;
  useEffect(() => {
    if (follows.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [version, turns.length]);
  return (
    <section
      ref={box}
      class="exchanges"
      tabIndex={0}
      aria-label={`Conversation with ${column.model.value}`}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        follows.current = scrollHeight - scrollTop - clientHeight < 48;
      }}
    >
      {turns.map((turn, index) => (
        <TurnView key={index} column={column} turn={turn} index={index} last={turn === last} />
      ))}
    </section>
  );
}

function textOf(input: readonly Item[]): string {
  return input
    .flatMap(({ content }) => (Array.isArray(content) ? (content as Part[]) : []))
    .map(({ text }) => text ?? "")
    .join("\n")
    .trim();
}

function TurnView({
  column,
  turn,
  index,
  last,
}: {
  column: Column;
  turn: Turn;
  index: number;
  last: boolean;
}) {
  // Read, so that the turn is rendered again when it grows.
  turn.version.value;
  const { live } = turn;
  const siblings = live.items.map(({ item }) => item);
  return (
    <div class="exchange">
      {turn.input.map((item, at) => (
        <ItemView key={at} item={item} />
      ))}
      <div class="row turn-actions">
        <button
          type="button"
          class="link"
          onClick={() => {
            draft.value = textOf(turn.input);
            branchBefore(column, index);
          }}
        >
          Edit and resend
        </button>
        <CopyButton text={() => JSON.stringify(turn.body, null, 2)} label="Copy the request as JSON" />
      </div>
      <div aria-live="off">
        {live.items.map((item, at) => (
          <div key={at} class="turn-item">
            <ItemView item={item.item} live={item} siblings={siblings} />
            {last && turn.ended && <Answer column={column} item={item.item} />}
          </div>
        ))}
      </div>
      {!turn.ended && live.items.length === 0 && <p class="loading">Waiting for the first token…</p>}
      {turn.note !== "" && <p class="notice">{turn.note}</p>}
      {turn.error !== undefined && <ErrorState error={turn.error} />}
      <Downgrades downgrades={live.response?.downgrades ?? []} />
      <TurnFacts turn={turn} />
    </div>
  );
}

function TurnFacts({ turn: { live, ended } }: { turn: Turn }) {
  const { response } = live;
  const usage = response?.usage;
  return (
    <p class="facts" role="status">
      {response !== undefined && (
        <>
          <a href={placeTo(["responses", response.id])}>Inspect</a>
          <a href={placeTo(["chains", response.id])}>Chain</a>
        </>
      )}
      {live.firstTokenMs !== undefined && <span>first token {duration(live.firstTokenMs)}</span>}
      {usage != null && (
        <span>
          {count(usage.input_tokens)} in, {count(usage.output_tokens)} out
        </span>
      )}
      {ended && response?.incomplete_details != null && (
        <span class="badge warn">incomplete: {response.incomplete_details.reason}</span>
      )}
      {ended && <span class="visually-hidden">The answer is complete.</span>}
    </p>
  );
}

/** What a person does with an item that waits: approve or refuse a call, or give a function's output. */
function Answer({ column, item }: { column: Column; item: Item }) {
  if (item.type === "mcp_approval_request") return <Approval column={column} item={item} />;
  if (item.type === "function_call" || item.type === "custom_tool_call")
    return <OutputForm column={column} item={item} />;
  return null;
}

function Approval({ column, item }: { column: Column; item: Item }) {
  const answer = (approve: boolean) =>
    start(column, [{ type: "mcp_approval_response", approval_request_id: item.id, approve } as Item]);
  return (
    <div class="approval">
      <p>
        {item.server_label} asks to run <code>{item.name}</code> with exactly these arguments:
      </p>
      <CodeBlock text={prettyJson(item.arguments ?? "")} language="json" />
      <div class="row">
        <Action kind="primary" scope="write" onClick={() => answer(true)}>
          Approve
        </Action>
        <Action kind="danger" scope="write" onClick={() => answer(false)}>
          Refuse
        </Action>
      </div>
    </div>
  );
}

function OutputForm({ column, item }: { column: Column; item: Item }) {
  const [output, setOutput] = useState("");
  const send = (event: Event) => {
    event.preventDefault();
    const call_id = item.call_id ?? "";
    start(column, [{ type: `${item.type}_output`, call_id, output }]);
  };
  return (
    <form class="row" onSubmit={send}>
      <input
        class="grow mono"
        aria-label={`Output of ${item.name}`}
        placeholder={`The output of ${item.name}`}
        value={output}
        onInput={(event) => setOutput(event.currentTarget.value)}
      />
      <button type="submit" class="action primary">
        Send output
      </button>
    </form>
  );
}
