import { useEffect, useRef, useState } from "preact/hooks";
import { CodeDialog } from "../../components/code-dialog.tsx";
import { Downgrades } from "../../components/downgrades.tsx";
import { ItemView } from "../../components/item.tsx";
import { ErrorState } from "../../components/states.tsx";
import { count, duration } from "../../lib/format.ts";
import { placeTo } from "../../lib/router.ts";
import { Answers } from "./answers.tsx";
import { type Column, editTurn, type Turn } from "./state.ts";

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
        <TurnView key={index} column={column} turn={turn} last={turn === last} />
      ))}
    </section>
  );
}

function TurnView({ column, turn, last }: { column: Column; turn: Turn; last: boolean }) {
  // Read, so that the turn is rendered again when it grows.
  turn.version.value;
  const [showsCode, setShowsCode] = useState(false);
  const { live } = turn;
  const siblings = live.items.map(({ item }) => item);
  return (
    <div class="exchange">
      {turn.input.map((item, at) => (
        <ItemView key={at} item={item} />
      ))}
      <div class="row turn-actions">
        <button type="button" class="link" onClick={() => editTurn(turn)}>
          Edit and resend
        </button>
        <button type="button" class="link" onClick={() => setShowsCode(true)}>
          Copy as code
        </button>
      </div>
      <div aria-live="off">
        {live.items.map((item, at) => (
          <div key={at} class="turn-item">
            <ItemView item={item.item} live={item} siblings={siblings} />
          </div>
        ))}
      </div>
      {last && turn.ended && <Answers column={column} items={siblings} />}
      {!turn.ended && live.items.length === 0 && <p class="loading">Waiting for the first token…</p>}
      {turn.note !== "" && <p class="notice">{turn.note}</p>}
      {turn.error !== undefined && <ErrorState error={turn.error} />}
      <Downgrades downgrades={live.response?.downgrades ?? []} />
      <TurnFacts turn={turn} />
      {showsCode && (
        <CodeDialog body={turn.body} headers={turn.headers} onClose={() => setShowsCode(false)} />
      )}
    </div>
  );
}

function TurnFacts({ turn: { live, ended, error } }: { turn: Turn }) {
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
      {ended && error === undefined && <span class="visually-hidden">The answer is complete.</span>}
    </p>
  );
}
