import { useState } from "preact/hooks";
import { CopyButton } from "../../components/buttons.tsx";
import { CodeDialog } from "../../components/code-dialog.tsx";
import { Downgrades } from "../../components/downgrades.tsx";
import { JsonTree } from "../../components/json.tsx";
import { Pre, Text } from "../../components/plain-text.tsx";
import { EmptyState, Loading } from "../../components/states.tsx";
import { ApiError } from "../../lib/api.ts";
import { bytes, duration } from "../../lib/format.ts";
import { marksOf } from "../../lib/marks.ts";
import type { SentRequest, Trace, TraceRound } from "../../lib/trace.ts";
import type { ResponseObject } from "../../lib/types.ts";

/** So deep that the text of a message is in sight. */
const SHOWN_LEVELS = 5;
const TRACED = { "antiphon-trace": "record" };

/** What went to the model's server and what it answered, beside what the client sent and got. */
export function Rounds({
  response,
  trace,
}: {
  response: ResponseObject;
  trace: Trace | ApiError | undefined;
}) {
  const [showsCode, setShowsCode] = useState(false);
  if (trace === undefined) return <Loading what="Loading the trace" />;
  if (trace instanceof ApiError) {
    return (
      <EmptyState title="No trace was recorded">
        {trace.message} A request records one with the header <code>antiphon-trace: record</code>, which the
        playground sets under “Delivery”.
      </EmptyState>
    );
  }
  const sent = clientBody(trace);
  return (
    <div class="stack">
      <div class="row spread muted">
        <span>
          Secrets are redacted.{" "}
          {trace.request_id !== null && <code class="whole-id">{trace.request_id}</code>}
        </span>
        {sent !== null && typeof sent === "object" && (
          <button type="button" onClick={() => setShowsCode(true)}>
            Copy the request as code
          </button>
        )}
      </div>
      {showsCode && <CodeDialog body={sent as object} headers={TRACED} onClose={() => setShowsCode(false)} />}
      {trace.rounds.map((round) => (
        <Round key={round.index} round={round} trace={trace} response={response} />
      ))}
    </div>
  );
}

function Round({ round, trace, response }: { round: TraceRound; trace: Trace; response: ResponseObject }) {
  const [open, setOpen] = useState(round.index === 0);
  const { request, answer } = round;
  // The request of the client is shown once: with what was changed for any round.
  const marks = marksOf(trace.rounds.flatMap(({ downgrades }) => downgrades));
  const last = Math.max(...trace.rounds.map(({ index }) => index));
  return (
    <section class="card stack">
      <header class="row">
        <button type="button" class="link" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "▾" : "▸"} Round {round.index + 1}
        </button>
        <span>
          <Text text={[round.upstream, round.kind, round.model].filter(Boolean).join(" · ")} />
        </span>
        {answer?.status != null && (
          <span class={`badge ${answer.status < 400 ? "good" : "bad"}`}>{answer.status}</span>
        )}
        {round.attempts.length > 1 && <span class="badge warn">{round.attempts.length} attempts</span>}
        {round.downgrades.length > 0 && <span class="badge warn">{round.downgrades.length} adapted</span>}
      </header>
      {open && (
        <>
          <Downgrades downgrades={round.downgrades} />
          {round.attempts.length > 1 && <JsonTree value={round.attempts} depth={1} />}
          <div class="split">
            {round.index === 0 ? (
              <Side title="From the client" value={clientBody(trace)} marks={marks} />
            ) : (
              <p class="muted">The request of the client is in round 1.</p>
            )}
            <Request request={request} />
            {round.index === last ? (
              <Side title="To the client" value={response.output} />
            ) : (
              <p class="muted">The output for the client is in round {last + 1}.</p>
            )}
            {request !== null && <Answer round={round} />}
          </div>
        </>
      )}
    </section>
  );
}

function clientBody({ client_request: sent }: Trace): unknown {
  return sent !== null && typeof sent === "object" && "body" in sent ? sent.body : sent;
}

interface SideProps {
  readonly title: string;
  readonly value: unknown;
  readonly cut?: boolean;
  readonly headers?: unknown;
  readonly marks?: Readonly<Record<string, string>>;
}

function Side({ title, value, cut = false, headers, marks = {} }: SideProps) {
  return (
    <section class="stack">
      <h3 class="side-title">
        <span title={title}>
          <Text text={title} />
        </span>
        <CopyButton text={() => (typeof value === "string" ? value : JSON.stringify(value, null, 2))} />
      </h3>
      {cut && <p class="notice">Cut: it was longer than the trace's limit (max_kb).</p>}
      {headers !== undefined && (
        <details>
          <summary>Headers</summary>
          <JsonTree value={headers} />
        </details>
      )}
      {typeof value === "string" ? (
        <Pre text={value} />
      ) : (
        <JsonTree value={value ?? null} depth={SHOWN_LEVELS} marks={marks} folded="tools" />
      )}
    </section>
  );
}

function Request({ request }: { request: SentRequest | null }) {
  if (request === null) {
    return (
      <EmptyState title="No request">
        This backend runs in the server's process: nothing was sent over HTTP.
      </EmptyState>
    );
  }
  return (
    <Side
      title={`To the model: ${request.method ?? "POST"} ${request.url ?? ""}`}
      value={request.body}
      cut={request.truncated === true}
      headers={request.headers}
    />
  );
}

function Answer({ round: { answer } }: { round: TraceRound }) {
  if (answer === null)
    return <EmptyState title="No answer">The connection failed before one arrived.</EmptyState>;
  const chunks = answer.chunks ?? [];
  const last = chunks.at(-1);
  const sum = chunks.reduce((total, chunk) => total + chunk.bytes, 0);
  return (
    <div>
      <Side
        title="From the model"
        value={answer.body}
        cut={answer.truncated === true}
        headers={answer.headers}
      />
      {last !== undefined && (
        <p class="muted">
          {chunks.length} chunks, {bytes(sum)}, the last after {duration(last.at_ms)}
        </p>
      )}
    </div>
  );
}
