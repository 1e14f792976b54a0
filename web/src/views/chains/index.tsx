import { StatusBadge } from "../../components/badge.tsx";
import { Text } from "../../components/plain-text.tsx";
import { EmptyState, ErrorState, Loading } from "../../components/states.tsx";
import type { ViewProps } from "../../components/view.ts";
import { type Page, request } from "../../lib/api.ts";
import { counted, fullTime, shortId, when } from "../../lib/format.ts";
import { useLoad } from "../../lib/load.ts";
import type { ResponseSummary } from "../../lib/types.ts";
import { ChainDetail } from "./detail.tsx";

export default function Chains({ path, query }: ViewProps) {
  const [id] = path;
  return id === undefined ? <Overview /> : <ChainDetail key={id} id={id} replay={query.replay} />;
}

interface Conversation {
  readonly id: string;
  readonly created_at: number;
  readonly response_count: number;
  readonly last_active_at: number | null;
}

/** Conversations, and the newest responses that continue another. */
function Overview() {
  const conversations = useLoad(
    (signal) => request<Page<Conversation>>("/v1/conversations", { query: { limit: 50 }, signal }),
    [],
  );
  const responses = useLoad(
    (signal) => request<Page<ResponseSummary>>("/v1/responses", { query: { limit: 50 }, signal }),
    [],
  );
  const chained = (responses.data?.data ?? []).filter(
    ({ previous_response_id, forks }) => previous_response_id !== null || forks > 0,
  );
  const failure = responses.error ?? conversations.error;
  const empty = chained.length === 0 && conversations.data?.data.length === 0;
  return (
    <>
      <header class="head">
        <h1>Chains</h1>
      </header>
      {failure !== undefined && <ErrorState error={failure} retry={responses.reload} />}
      {responses.loading && responses.data === undefined && <Loading />}
      {empty && !responses.loading && (
        <EmptyState title="No chains yet">
          Continue a response in the <a href="#/playground">playground</a>, or send{" "}
          <code>previous_response_id</code>.
        </EmptyState>
      )}
      {(conversations.data?.data.length ?? 0) > 0 && (
        <section>
          <h2>Conversations</h2>
          <ul class="tree">
            {conversations.data?.data.map((conversation) => (
              <li key={conversation.id} class="node">
                <a class="mono" href={`#/chains/${conversation.id}`}>
                  {shortId(conversation.id)}
                </a>
                <span>{counted(conversation.response_count, "response")}</span>
                <span class="muted">{when(conversation.last_active_at ?? conversation.created_at)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {chained.length > 0 && <Chained responses={chained} />}
    </>
  );
}

function Chained({ responses }: { responses: readonly ResponseSummary[] }) {
  return (
    <section>
      <h2>Newest responses in a chain</h2>
      <ul class="tree">
        {responses.map((response) => (
          <li key={response.id} class="node">
            <StatusBadge status={response.status} />
            <a class="preview" href={`#/chains/${response.id}`}>
              <div>
                <Text text={response.input_preview || response.output_preview || response.id} />
              </div>
            </a>
            <span class="muted" title={fullTime(response.created_at)}>
              {response.forks > 0 && `${counted(response.forks + 1, "branch", "branches")} · `}
              {when(response.created_at)}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
