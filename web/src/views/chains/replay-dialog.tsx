import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Action } from "../../components/buttons.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Diff } from "../../components/diff.tsx";
import { ErrorState } from "../../components/states.tsx";
import { listAll } from "../../lib/api.ts";
import type { ChainNode } from "../../lib/chain.ts";
import { ABSENT, count, duration, shortId } from "../../lib/format.ts";
import { useLoad } from "../../lib/load.ts";
import { answerOf, callsOf, type Replay, replayBranch, replayOne, totalsOf } from "./replay.ts";

export interface ReplayDialogProps {
  readonly id: string;
  readonly nodes: readonly ChainNode[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Sends a response, or its branch, again with another model or other parameters, and shows what differs. */
export function ReplayDialog({ id, nodes, onClose, onDone }: ReplayDialogProps) {
  const models = useLoad(() => listAll<{ id: string; kind?: string }>("/v1/models"), []);
  const [model, setModel] = useState(nodes.find((node) => node.id === id)?.model ?? "");
  const [branch, setBranch] = useState(false);
  const [changes, setChanges] = useState("");
  const [replays, setReplays] = useState<readonly Replay[]>([]);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const abort = useRef(new AbortController());
  useEffect(() => () => abort.current.abort(), []);
  const run = async () => {
    setBusy(true);
    setError(undefined);
    setReplays([]);
    try {
      const { signal } = abort.current;
      const options = { model, changes: changesIn(changes), signal };
      if (branch)
        for await (const replay of replayBranch(id, nodes, options)) setReplays((all) => [...all, replay]);
      else setReplays([await replayOne(id, nodes, options)]);
      onDone();
    } catch (failure) {
      if (!abort.current.signal.aborted) setError(failure);
    }
    setBusy(false);
  };
  const names = (models.data ?? []).filter(({ kind }) => kind !== "embedding").map((one) => one.id);
  return (
    <Dialog drawer title={`Replay ${shortId(id)}`} onClose={onClose}>
      <label>
        Model
        <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
          {!names.includes(model) && <option>{model}</option>}
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        Changed parameters (JSON)
        <textarea
          class="mono"
          rows={2}
          placeholder={'{"temperature": 0, "tools": null}'}
          value={changes}
          onInput={(event) => setChanges(event.currentTarget.value)}
        />
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={branch}
          onChange={(event) => setBranch(event.currentTarget.checked)}
        />{" "}
        The whole branch, from its first response to this one
      </label>
      <div class="row end">
        <Action kind="primary" scope="write" off={busy ? "The replay is running." : undefined} onClick={run}>
          {busy ? "Running…" : "Replay"}
        </Action>
      </div>
      {error !== undefined && <ErrorState error={error} />}
      {replays.length > 1 && <BranchTotals replays={replays} />}
      {replays.map((replay) => (
        <Outcome key={replay.after.id} replay={replay} />
      ))}
    </Dialog>
  );
}

function changesIn(text: string): Record<string, unknown> {
  if (text.trim() === "") return {};
  const value: unknown = JSON.parse(text);
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Error("Changed parameters: write a JSON object.");
  }
  return value as Record<string, unknown>;
}

type Row = readonly [name: string, before: string, after: string];

const COST: Row = ["Cost (not recorded)", ABSENT, ABSENT];

/** What the branch took in all, as far as it was replayed. */
function BranchTotals({ replays }: { replays: readonly Replay[] }) {
  const { before, after } = totalsOf(replays);
  const rows: Row[] = [
    ["Input tokens", count(before.inputTokens), count(after.inputTokens)],
    ["Output tokens", count(before.outputTokens), count(after.outputTokens)],
    ["Time", duration(before.ms), duration(after.ms)],
    COST,
  ];
  return (
    <section class="card stack" aria-label="Totals of the branch">
      <h3>All {replays.length} responses</h3>
      <Comparison rows={rows} before="before" after="replay" />
    </section>
  );
}

function Outcome({ replay: { before, after, beforeMs, afterMs } }: { replay: Replay }) {
  const calls = [callsOf(before), callsOf(after)] as const;
  const rows: Row[] = [
    ["Model", before.model, after.model],
    ["Status", before.status, after.status],
    ["Input tokens", count(before.usage?.input_tokens), count(after.usage?.input_tokens)],
    ["Output tokens", count(before.usage?.output_tokens), count(after.usage?.output_tokens)],
    ["Time", duration(beforeMs), duration(afterMs)],
    COST,
  ];
  return (
    <section class="card stack outcome">
      <Comparison
        rows={rows}
        before={<a href={`#/responses/${before.id}`}>before</a>}
        after={<a href={`#/responses/${after.id}`}>replay</a>}
      />
      {after.error != null && <ErrorState error={new Error(after.error.message)} />}
      <h3>Text</h3>
      <Diff before={answerOf(before)} after={answerOf(after)} />
      {(calls[0] !== "" || calls[1] !== "") && (
        <>
          <h3>Calls</h3>
          <Diff before={calls[0]} after={calls[1]} />
        </>
      )}
    </section>
  );
}

interface ComparisonProps {
  readonly rows: readonly Row[];
  readonly before: ComponentChildren;
  readonly after: ComponentChildren;
}

function Comparison({ rows, before, after }: ComparisonProps) {
  return (
    <table>
      <thead>
        <tr>
          <th />
          <th>{before}</th>
          <th>{after}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, old, fresh]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{old}</td>
            <td>{fresh}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
