import { useEffect, useState } from "preact/hooks";
import { StatusBadge } from "../../components/badge.tsx";
import { Action } from "../../components/buttons.tsx";
import { Text } from "../../components/plain-text.tsx";
import { EmptyState, ErrorState, Loading } from "../../components/states.tsx";
import { VirtualList } from "../../components/virtual-list.tsx";
import { type Page, request } from "../../lib/api.ts";
import { type Chain, type ChainNode, type ChainRow, rowsOf } from "../../lib/chain.ts";
import { count, duration, fullTime } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keyboard.ts";
import { useLoad } from "../../lib/load.ts";
import { withoutMarks } from "../../lib/previews.ts";
import { go, placeTo } from "../../lib/router.ts";
import type { ResponseSummary } from "../../lib/types.ts";
import { ReplayDialog } from "./replay-dialog.tsx";

const ROW_PX = 64;
const MAX_PLAIN_ROWS = 200;

/** The tree that contains a response, or the responses of a conversation. */
async function loadChain(id: string, signal: AbortSignal): Promise<Chain | undefined> {
  let responseId: string | undefined = id;
  if (id.startsWith("conv_")) {
    const query = { conversation: id, limit: 1 };
    const page: Page<ResponseSummary> = await request("/v1/responses", { query, signal });
    responseId = page.data[0]?.id;
  }
  if (responseId === undefined) return undefined;
  return request<Chain>(`/v1/responses/${encodeURIComponent(responseId)}/chain`, { signal });
}

export function ChainDetail({ id, replay }: { id: string; replay: string | undefined }) {
  const { data, error, loading, reload } = useLoad((signal) => loadChain(id, signal), [id]);
  const [replayed, setReplayed] = useState(replay);
  const [at, setAt] = useState<number>();
  const rows = data === undefined ? [] : rowsOf(data.nodes);
  const current =
    at ??
    Math.max(
      0,
      rows.findIndex(({ node }) => node.id === id),
    );
  const move = (by: number) => setAt(Math.max(0, Math.min(rows.length - 1, current + by)));
  useEffect(() => setReplayed(replay), [replay]);
  useShortcuts([
    { keys: "j", label: "Next response", run: () => move(1) },
    { keys: "k", label: "Previous response", run: () => move(-1) },
    {
      keys: "Enter",
      label: "Open the response",
      run: () => rows[current] && go(["responses", rows[current].node.id]),
    },
    { keys: "Escape", label: "Back to the chains", run: () => go(["chains"]) },
  ]);
  const render = (index: number) => {
    const row = rows[index];
    return row === undefined ? null : <Row row={row} current={index === current} onReplay={setReplayed} />;
  };
  if (error !== undefined) return <ErrorState error={error} retry={reload} />;
  if (data === undefined) {
    return loading ? <Loading /> : <EmptyState title="No response in this conversation yet">{id}</EmptyState>;
  }
  return (
    <>
      <header class="head">
        <h1>Chain</h1>
        <Sums nodes={data.nodes} />
      </header>
      {data.conversation !== null && <p class="mono muted">{data.conversation}</p>}
      {data.truncated && (
        <p class="notice">The tree is larger than what is shown here. Open a later response to see more.</p>
      )}
      {rows.length > MAX_PLAIN_ROWS ? (
        <VirtualList
          count={rows.length}
          estimate={ROW_PX}
          label="Responses of the chain"
          focus={current}
          row={render}
          height="80vh"
        />
      ) : (
        <ol class="tree">
          {rows.map(({ node }, index) => (
            <li key={node.id}>{render(index)}</li>
          ))}
        </ol>
      )}
      {replayed !== undefined && (
        <ReplayDialog
          id={replayed}
          nodes={data.nodes}
          onClose={() => setReplayed(undefined)}
          onDone={reload}
        />
      )}
    </>
  );
}

function Sums({ nodes }: { nodes: readonly ChainNode[] }) {
  const sum = (value: (node: ChainNode) => number | null) =>
    nodes.reduce((total, node) => total + (value(node) ?? 0), 0);
  return (
    <p class="fact-strip">
      <span>
        <b>{nodes.length}</b> responses
      </span>
      <span>
        <b>{count(sum(({ input_tokens }) => input_tokens))}</b> in,{" "}
        <b>{count(sum(({ output_tokens }) => output_tokens))}</b> out
      </span>
      <span>
        <b>{duration(sum(({ total_ms }) => total_ms))}</b>
      </span>
    </p>
  );
}

interface RowProps {
  readonly row: ChainRow;
  readonly current: boolean;
  readonly onReplay: (id: string) => void;
}

function Row({ row: { node, depth, children, startsBranch, lines }, current, onReplay }: RowProps) {
  return (
    <div class={`node${current ? " current" : ""}`} aria-current={current ? "true" : undefined}>
      <span class="tree-lines" aria-hidden="true">
        {lines}●
      </span>
      <a
        class="preview"
        href={placeTo(["responses", node.id])}
        title={`${node.id}, ${fullTime(node.created_at)}`}
      >
        <span class="visually-hidden">{startsBranch ? `Branch at depth ${depth}: ` : ""}</span>
        <div>
          <Text text={node.input_preview || node.id} />
        </div>
        <div class="muted">
          <Text text={withoutMarks(node.output_preview ?? "")} />
        </div>
      </a>
      <div class="row node-facts">
        {node.status !== "completed" && <StatusBadge status={node.status} />}
        {node.compaction && <span class="badge warn">compaction</span>}
        {children > 1 && <span class="badge busy">{children} branches</span>}
        <span class="muted">
          <Text text={node.model} /> · {count(node.input_tokens)} in, {count(node.output_tokens)} out ·{" "}
          {duration(node.total_ms)}
        </span>
        <Action scope="write" onClick={() => go(["playground"], { from: node.id, model: node.model })}>
          {children > 0 ? "Fork" : "Continue"}
        </Action>
        <Action scope="write" onClick={() => onReplay(node.id)}>
          Replay
        </Action>
      </div>
    </div>
  );
}
