import { EmptyState } from "../../components/states.tsx";
import type { ViewProps } from "../../components/view.ts";
import { ApiError, type Page, request } from "../../lib/api.ts";
import { ABSENT, duration, wholeSeconds } from "../../lib/format.ts";
import { useLoad, usePolling } from "../../lib/load.ts";
import { isFinal } from "../../lib/types.ts";
import { age } from "../figures.ts";
import { Act, Badge, Failure, Head, Id, Scrolled, visible } from "../parts.tsx";
import { AgentRunView } from "./agent_run.tsx";
import { loadApprovals, Waiting } from "./approvals.tsx";
import { BackgroundResponse } from "./background.tsx";
import type { Approval, Run, Summary } from "./types.ts";

const LIVE_SECONDS = 1.5;
const IDLE_SECONDS = 10;

interface Everything {
  readonly approvals: readonly Approval[];
  readonly responses: readonly Summary[];
  readonly runs: readonly Run[];
}

export default function RunsView({ path: [id] }: ViewProps) {
  if (id === undefined) return <RunList />;
  return id.startsWith("resp_") ? <BackgroundResponse key={id} id={id} /> : <AgentRunView key={id} id={id} />;
}

async function loadEverything(signal: AbortSignal): Promise<Everything> {
  const [approvals, responses, runs] = await Promise.all([
    loadApprovals(signal),
    request<Page<Summary>>("/v1/responses", { query: { background: true, limit: 50 }, signal }),
    loadRuns(signal),
  ]);
  return { approvals, responses: responses.data, runs };
}

/** A server whose agent is off has no runs. */
async function loadRuns(signal: AbortSignal): Promise<readonly Run[]> {
  try {
    return (await request<Page<Run>>("/v1/agent/runs", { query: { limit: 50 }, signal })).data;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return [];
    throw error;
  }
}

function isLive(found: Everything | undefined): boolean {
  return found !== undefined && [...found.responses, ...found.runs].some((each) => !isFinal(each.status));
}

function RunList() {
  const { data: found, error, reload, refresh } = useLoad(loadEverything, []);
  usePolling(refresh, isLive(found) ? LIVE_SECONDS : IDLE_SECONDS);
  return (
    <>
      <Head title="Runs" about="Work that goes on without a connection: background responses and agent runs.">
        <Act label="Refresh" onClick={reload} />
      </Head>
      <Failure error={error} retry={reload} />
      {found !== undefined && <Waiting approvals={found.approvals} decided={reload} />}
      {found !== undefined && <Runs runs={found.runs} reload={reload} />}
      {found !== undefined && <Responses responses={found.responses} reload={reload} />}
    </>
  );
}

function Runs({ runs, reload }: { runs: readonly Run[]; reload: () => unknown }) {
  return (
    <section aria-labelledby="agent-runs">
      <h2 id="agent-runs">Agent runs</h2>
      {runs.length === 0 ? (
        <EmptyState title="No agent runs yet">
          Start one with <code>antiphon agent run TASK.toml</code> or <code>POST /v1/agent/runs</code>.
        </EmptyState>
      ) : (
        <Scrolled label="Agent runs">
          <table class="stacked">
            <thead>
              <tr>
                <th>status</th>
                <th>run</th>
                <th>title</th>
                <th>started</th>
                <th class="number">took</th>
                <th>
                  <span class="visually-hidden">actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {runs.map((run) => (
                <tr key={run.id}>
                  <td>
                    <Badge status={run.status} />
                  </td>
                  <td>
                    <Id value={run.id} href={`#/runs/${run.id}`} />
                  </td>
                  <td class="wide">{visible(run.title)}</td>
                  <td class="nowrap">{age(run.created_at)}</td>
                  <td class="number" data-label="took">
                    {took(run)}
                  </td>
                  <td>
                    {!isFinal(run.status) && (
                      <Cancel path={`/v1/agent/runs/${run.id}`} id={run.id} reload={reload} />
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scrolled>
      )}
    </section>
  );
}

function took({ created_at: began, ended_at: ended }: Run): string {
  return ended === null ? ABSENT : wholeSeconds(ended - began);
}

function Responses({ responses, reload }: { responses: readonly Summary[]; reload: () => unknown }) {
  return (
    <section aria-labelledby="background">
      <h2 id="background">Background responses</h2>
      {responses.length === 0 ? (
        <EmptyState title="No background responses yet">
          Send a request with <code>"background": true</code>. It survives a lost connection and a restart.
        </EmptyState>
      ) : (
        <Scrolled label="Background responses">
          <table class="stacked">
            <thead>
              <tr>
                <th>status</th>
                <th>response</th>
                <th>model</th>
                <th>input</th>
                <th>started</th>
                <th class="number">took</th>
                <th>
                  <span class="visually-hidden">actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {responses.map((each) => (
                <tr key={each.id}>
                  <td>
                    <Badge status={each.status} />
                  </td>
                  <td>
                    <Id value={each.id} href={`#/runs/${each.id}`} />
                  </td>
                  <td data-label="model">{visible(each.model)}</td>
                  <td class="wide">{visible(each.input_preview)}</td>
                  <td class="nowrap">{age(each.created_at)}</td>
                  <td class="number" data-label="took">
                    {duration(each.total_ms)}
                  </td>
                  <td>
                    {!isFinal(each.status) && (
                      <Cancel path={`/v1/responses/${each.id}`} id={each.id} reload={reload} />
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scrolled>
      )}
    </section>
  );
}

export function Cancel({ path, id, reload }: { path: string; id: string; reload: () => unknown }) {
  const cancel = async () => {
    await request(`${path}/cancel`, { method: "POST" });
    await reload();
  };
  return <Act label="Cancel" kind="danger" scope="write" name={`Cancel ${id}`} onClick={cancel} />;
}
