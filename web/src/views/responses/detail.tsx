import { useState } from "preact/hooks";
import { StatusBadge } from "../../components/badge.tsx";
import { Action, CopyButton } from "../../components/buttons.tsx";
import { Confirm } from "../../components/dialog.tsx";
import { Downgrades } from "../../components/downgrades.tsx";
import { JsonTree } from "../../components/json.tsx";
import { ErrorState, Loading } from "../../components/states.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { ApiError, type Page, request } from "../../lib/api.ts";
import { ABSENT, count, duration, fullTime } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keyboard.ts";
import { useLoad, usePolling } from "../../lib/load.ts";
import { go, placeTo } from "../../lib/router.ts";
import type { Trace } from "../../lib/trace.ts";
import { isFinal, type ResponseObject, type ResponseSummary } from "../../lib/types.ts";
import { Events } from "./events.tsx";
import { Items } from "./items.tsx";
import { Rounds } from "./rounds.tsx";

const REFRESH_SECONDS = 1;
const TABS = [
  ["items", "Items"],
  ["upstream", "Upstream"],
  ["events", "Events"],
  ["json", "JSON"],
] as const;

async function loadTrace(id: string, signal: AbortSignal): Promise<Trace | ApiError> {
  try {
    return await request<Trace>(`/v1/responses/${encodeURIComponent(id)}/trace`, { signal });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return error;
    throw error;
  }
}

export function Detail({ id, tab }: { id: string; tab: string }) {
  const path = `/v1/responses/${encodeURIComponent(id)}`;
  const {
    data: response,
    error,
    reload,
    refresh,
  } = useLoad((signal) => request<ResponseObject>(path, { signal }), [path]);
  const ended = response === undefined ? undefined : isFinal(response.status);
  const { data: trace, error: traceError } = useLoad(
    async (signal) => (ended === undefined ? undefined : loadTrace(id, signal)),
    [id],
    [ended],
  );
  const { data: times } = useLoad(
    async (signal) => (ended === true ? loadTimes(response, signal) : undefined),
    [id],
    [ended],
  );
  usePolling(refresh, REFRESH_SECONDS, response !== undefined && !isFinal(response.status));
  useShortcuts([{ keys: "Escape", label: "Back to the list", run: () => go(["responses"]) }]);
  if (response === undefined)
    return error === undefined ? <Loading /> : <ErrorState error={error} retry={reload} />;
  return (
    <>
      <Head response={response} times={times} reload={reload} />
      {error !== undefined && <ErrorState error={error} retry={reload} />}
      <Failure response={response} />
      <Downgrades downgrades={response.downgrades ?? []} />
      <Tabs tabs={TABS} current={tab} />
      {traceError !== undefined && tab !== "json" && <ErrorState error={traceError} />}
      {tab === "items" && <Items response={response} trace={trace} />}
      {tab === "upstream" && <Rounds response={response} trace={trace} />}
      {tab === "events" && <Events id={id} running={!isFinal(response.status)} />}
      {tab === "json" && <JsonTree value={response} depth={2} />}
    </>
  );
}

/** Why it failed or ended early. */
function Failure({ response }: { response: ResponseObject }) {
  const { error, incomplete_details: incomplete } = response;
  if (error != null)
    return <ErrorState error={new ApiError(error.message, { type: "response_failed", code: error.code })} />;
  if (incomplete != null) {
    return (
      <p class="notice">
        The answer is incomplete: <code>{incomplete.reason}</code>.
        {incomplete.reason === "max_output_tokens" && " Raise max_output_tokens and replay it."}
      </p>
    );
  }
  return null;
}

type Times = Pick<ResponseSummary, "first_token_ms" | "total_ms">;

/** The times of a response in milliseconds, which its row in the list has. */
async function loadTimes(
  response: ResponseObject | undefined,
  signal: AbortSignal,
): Promise<Times | undefined> {
  if (response === undefined) return undefined;
  const { id, created_at: began } = response;
  const query = { text: id, created_after: began - 1, created_before: began + 1, limit: 1 };
  return (await request<Page<ResponseSummary>>("/v1/responses", { query, signal })).data[0];
}

interface HeadProps {
  readonly response: ResponseObject;
  readonly times: Times | undefined;
  readonly reload: () => void;
}

function Head({ response, times, reload }: HeadProps) {
  const { id, status, usage } = response;
  const [asksDeletion, setAsksDeletion] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const act = (method: "POST" | "DELETE", path: string, then: () => void) => {
    request(path, { method }).then(then, setFailure);
  };
  const cancel = () => act("POST", `/v1/responses/${id}/cancel`, reload);
  const remove = () => act("DELETE", `/v1/responses/${id}`, () => go(["responses"]));
  return (
    <>
      <header class="head tight">
        <h1 class="mono">{id}</h1>
        <CopyButton text={id} label="Copy the id" />
        <StatusBadge status={status} />
        <span class="grow" />
      </header>
      <div class="row">
        <Action scope="write" onClick={() => go(["playground"], { from: id, model: response.model })}>
          Continue in the playground
        </Action>
        <Action scope="write" onClick={() => go(["chains", id], { replay: id })}>
          Replay
        </Action>
        <a class="button" href={placeTo(["chains", id])}>
          Chain
        </a>
        <span class="grow" />
        {!isFinal(status) && (
          <Action scope="write" off={response.background ? undefined : NOT_BACKGROUND} onClick={cancel}>
            Cancel
          </Action>
        )}
        <Action kind="danger" scope="delete" onClick={() => setAsksDeletion(true)}>
          Delete
        </Action>
      </div>
      {failure !== undefined && <ErrorState error={failure} />}
      <p class="fact-strip">
        <span>
          model <b>{response.model}</b>
        </span>
        <span>{fullTime(response.created_at)}</span>
        {times?.total_ms != null && (
          <span>
            took <b>{duration(times.total_ms)}</b>
            {times.first_token_ms != null && `, first token after ${duration(times.first_token_ms)}`}
          </span>
        )}
        {usage != null && (
          <span>
            <b>{count(usage.input_tokens)}</b> in ({count(usage.input_tokens_details?.cached_tokens ?? 0)}{" "}
            cached), <b>{count(usage.output_tokens)}</b> out (
            {count(usage.output_tokens_details?.reasoning_tokens ?? 0)} reasoning)
          </span>
        )}
        <span title="This version has no prices.">cost {ABSENT}</span>
        {response.previous_response_id != null && (
          <span>
            continues{" "}
            <a class="whole-id" href={placeTo(["responses", response.previous_response_id])}>
              {response.previous_response_id}
            </a>
          </span>
        )}
        {response.conversation != null && (
          <span>
            in <a href={placeTo(["chains", response.conversation.id])}>{response.conversation.id}</a>
          </span>
        )}
      </p>
      {asksDeletion && (
        <Confirm
          title="Delete this response?"
          action="Delete"
          onConfirm={remove}
          onClose={() => setAsksDeletion(false)}
        >
          It cannot be undone. Its trace is deleted with it.
        </Confirm>
      )}
    </>
  );
}

const NOT_BACKGROUND =
  "Only background responses can be cancelled. Close the connection of its client instead.";
