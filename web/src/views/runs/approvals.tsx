import { useSignal } from "@preact/signals";
import { type Page, request } from "../../lib/api.ts";
import { prettyJson } from "../../lib/pretty-json.ts";
import type { ResponseObject } from "../../lib/types.ts";
import { age } from "../figures.ts";
import { Act, Failure, Id, LongText, visible } from "../parts.tsx";
import { answerBody } from "./continuation.ts";
import type { Approval } from "./types.ts";

const MAX_LISTED = 100;

/** The newest calls that wait for a person. */
export async function loadApprovals(signal: AbortSignal): Promise<readonly Approval[]> {
  return (await request<Page<Approval>>("/v1/approvals", { query: { limit: MAX_LISTED }, signal })).data;
}

async function decide(approval: Approval, approve: boolean): Promise<void> {
  if (approval.kind === "agent") {
    const body = { approval_request_id: approval.id, approve };
    await request(`/v1/agent/runs/${approval.run_id}/approvals`, { method: "POST", body });
    return;
  }
  const asked = await request<ResponseObject>(`/v1/responses/${approval.response_id}`);
  await request("/v1/responses", { method: "POST", body: answerBody(asked, approval.id, approve) });
}

export function Waiting({ approvals, decided }: { approvals: readonly Approval[]; decided: () => unknown }) {
  const error = useSignal<unknown>(undefined);
  const answer = async (approval: Approval, approve: boolean) => {
    try {
      await decide(approval, approve);
      error.value = undefined;
      await decided();
    } catch (cause) {
      error.value = cause;
    }
  };
  if (approvals.length === 0) return null;
  return (
    <section class="waiting" aria-labelledby="waiting-title">
      <h2 id="waiting-title">Waits for you ({approvals.length})</h2>
      <Failure error={error.value} />
      {approvals.map((each) => (
        <article key={`${each.run_id ?? each.response_id} ${each.id}`} class="approval">
          <div class="row">
            <strong>{visible(each.name)}</strong>
            {each.server_label != null && <span class="muted">of {visible(each.server_label)}</span>}
            <Owner approval={each} />
            <span class="muted">{age(each.created_at)}</span>
          </div>
          <LongText mono text={prettyJson(each.arguments)} />
          <div class="row">
            <Act
              label="Approve"
              kind="primary"
              scope="write"
              name={`Approve ${each.name}`}
              onClick={() => answer(each, true)}
            />
            <Act
              label="Reject"
              scope="write"
              name={`Reject ${each.name}`}
              onClick={() => answer(each, false)}
            />
          </div>
        </article>
      ))}
    </section>
  );
}

function Owner({ approval }: { approval: Approval }) {
  if (approval.run_id != null) return <Id value={approval.run_id} href={`#/runs/${approval.run_id}`} />;
  if (approval.response_id == null) return null;
  return <Id value={approval.response_id} href={`#/responses/${approval.response_id}`} />;
}
