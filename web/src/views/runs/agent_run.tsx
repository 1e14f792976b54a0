import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Confirm } from "../../components/dialog.tsx";
import { request } from "../../lib/api.ts";
import { follow } from "../../lib/follow.ts";
import { count, duration } from "../../lib/format.ts";
import { useLoad } from "../../lib/load.ts";
import { prettyJson } from "../../lib/pretty-json.ts";
import { go } from "../../lib/router.ts";
import { isFinal } from "../../lib/types.ts";
import { moment } from "../figures.ts";
import { Act, Badge, Failure, Head, Id, LongText, visible } from "../parts.tsx";
import { Waiting } from "./approvals.tsx";
import { Cancel } from "./index.tsx";
import type { Approval, RunCall, RunDetail, RunTurn } from "./types.ts";

const SNAKE = { case: "snake" };
/** Between an event and the request for the run, so that many events at once make one request. */
const RELOAD_MS = 100;

export function AgentRunView({ id }: { id: string }) {
  const connected = useSignal(true);
  const asking = useSignal(false);
  const path = `/v1/agent/runs/${encodeURIComponent(id)}`;
  const broken = useSignal<unknown>(undefined);
  const {
    data: run,
    error,
    reload,
  } = useLoad<RunDetail>((signal) => request(path, { query: SNAKE, signal }), [id]);
  const live = run !== undefined && !isFinal(run.status);
  useEffect(() => {
    if (!live) return undefined;
    const abort = new AbortController();
    const signal = abort.signal;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onEvent = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        reload();
      }, RELOAD_MS);
    };
    follow({ path, query: SNAKE, signal, onEvent, onConnection: (is) => (connected.value = is) })
      .then(reload)
      .catch((cause) => {
        if (!signal.aborted) broken.value = cause;
      });
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [live]);
  const remove = async () => {
    try {
      await request(path, { method: "DELETE" });
      go(["runs"]);
    } catch (cause) {
      broken.value = cause;
    }
  };
  return (
    <>
      <Head title={run === undefined ? "Run" : visible(run.title)}>
        {live && <Cancel path={path} id={id} reload={reload} />}
        {run !== undefined && (
          <Act
            label="Delete"
            kind="danger"
            scope="delete"
            onClick={() => {
              asking.value = true;
            }}
          />
        )}
      </Head>
      {asking.value && (
        <Confirm
          title="Delete this run?"
          action="Delete"
          onConfirm={remove}
          onClose={() => {
            asking.value = false;
          }}
        >
          {live ? "It is cancelled first. " : ""}This cannot be undone.
        </Confirm>
      )}
      <Failure error={error ?? broken.value} retry={reload} />
      {!connected.value && <p role="status">The connection broke. The run goes on; connecting again …</p>}
      {run !== undefined && (
        <>
          <Waiting approvals={approvalsOf(run)} decided={reload} />
          <Facts run={run} />
          <RunTree run={run} />
        </>
      )}
    </>
  );
}

/** The requests of a run, as `GET /v1/approvals` lists them. */
function approvalsOf({ id, created_at, tree }: RunDetail): readonly Approval[] {
  return tree.approvals.map((each) => ({
    ...each,
    object: "approval",
    kind: "agent",
    run_id: id,
    created_at,
  }));
}

function Facts({ run }: { run: RunDetail }) {
  return (
    <dl class="properties">
      <dt>status</dt>
      <dd>
        <Badge status={run.status} />
      </dd>
      <dt>run</dt>
      <dd>
        <Id whole value={run.id} />
      </dd>
      <dt>model</dt>
      <dd>{visible(run.tree.model) || "–"}</dd>
      <dt>mode</dt>
      <dd>{run.tree.mode || "–"}</dd>
      <dt>started</dt>
      <dd>{moment(run.created_at)}</dd>
      <dt>attempts</dt>
      <dd>{run.attempts}</dd>
    </dl>
  );
}

function RunTree({ run }: { run: RunDetail }) {
  const { turns, warnings, error, approvals } = run.tree;
  const waiting = new Set(approvals.map(({ id }) => id));
  return (
    <section aria-labelledby="turns">
      <h2 id="turns">Turns and tool calls</h2>
      {warnings.map((each, index) => (
        <p key={index} class="warning">
          {visible(each)}
        </p>
      ))}
      {error !== null && <Failure error={new Error(error)} />}
      {turns.length === 0 && <p class="muted">The first turn has not begun.</p>}
      <ol class="turns" aria-live="polite">
        {turns.map((turn) => (
          <Turn key={turn.number} turn={turn} waiting={waiting} />
        ))}
      </ol>
      {run.response?.text != null && run.response.text !== "" && (
        <section class="answer" aria-labelledby="answer">
          <h2 id="answer">Answer</h2>
          <LongText text={run.response.text} />
        </section>
      )}
    </section>
  );
}

function Turn({ turn, waiting }: { turn: RunTurn; waiting: ReadonlySet<string> }) {
  const input = turn.usage.prompt_tokens ?? 0;
  const output = turn.usage.completion_tokens ?? 0;
  return (
    <li class="turn">
      <div class="row">
        <strong>Turn {turn.number}</strong>
        {turn.response_id !== null && (
          <Id value={turn.response_id} href={`#/responses/${turn.response_id}`} />
        )}
        {input + output > 0 && (
          <span class="muted">
            {count(input)} in, {count(output)} out
          </span>
        )}
        {turn.response_id === null && <Badge status="in_progress" />}
      </div>
      {turn.text !== "" && <LongText text={turn.text} />}
      <ul class="calls">
        {turn.calls.map((call) => (
          <Call key={call.call_id} call={call} waits={waiting.has(call.call_id)} />
        ))}
      </ul>
    </li>
  );
}

function Call({ call, waits }: { call: RunCall; waits: boolean }) {
  const state = call.outcome ?? (call.started ? "running" : waits ? "waiting" : "not reached");
  return (
    <li>
      <details>
        <summary>
          <code>{visible(call.name)}</code> <Badge status={state} />{" "}
          <span class="muted">{duration(call.elapsed_ms)}</span>
        </summary>
        <LongText mono text={prettyJson(call.arguments)} />
        {call.output !== "" && <LongText mono text={prettyJson(call.output)} />}
      </details>
    </li>
  );
}
