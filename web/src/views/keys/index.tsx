import { useSignal } from "@preact/signals";
import { Confirm } from "../../components/dialog.tsx";
import { EmptyState, Loading } from "../../components/states.tsx";
import { type Page, request } from "../../lib/api.ts";
import { useLoad } from "../../lib/load.ts";
import { whyNot } from "../../lib/session.ts";
import { moment } from "../figures.ts";
import { Act, Badge, Failure, Head, Id, Scrolled, visible } from "../parts.tsx";
import { NewKey } from "./new_key.tsx";
import type { Key } from "./types.ts";

export default function KeysView() {
  const reason = whyNot("admin");
  if (reason === undefined) return <Keys />;
  return (
    <>
      <Head title="Keys" />
      <EmptyState title="Keys are for administrators">{reason}</EmptyState>
    </>
  );
}

function Keys() {
  const creating = useSignal(false);
  const problem = useSignal<unknown>(undefined);
  const { data, error, reload } = useLoad((signal) => request<Page<Key>>("/v1/admin/keys", { signal }), []);
  return (
    <>
      <Head title="Keys" about="Who may do what. A change holds within a second on every replica.">
        <Act
          label="New key"
          kind="primary"
          scope="admin"
          onClick={() => {
            creating.value = true;
          }}
        />
      </Head>
      <Failure error={error ?? problem.value} retry={reload} />
      {data === undefined && error === undefined && <Loading />}
      {data !== undefined && data.data.length === 0 && (
        <EmptyState title="No keys yet">
          As soon as there is one, every request needs a key, and so does this page. Make the first one with
          the scope “admin”.
        </EmptyState>
      )}
      {data !== undefined && data.data.length > 0 && (
        <Scrolled label="Keys">
          <table class="stacked">
            <thead>
              <tr>
                <th>state</th>
                <th>name</th>
                <th>key</th>
                <th>tenant</th>
                <th>scopes</th>
                <th>created</th>
                <th>expires</th>
                <th>
                  <span class="visually-hidden">actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {data.data.map((key) => (
                <Row key={key.id} apiKey={key} reload={reload} problem={problem} />
              ))}
            </tbody>
          </table>
        </Scrolled>
      )}
      {creating.value && (
        <NewKey
          isFirst={data?.data.length === 0}
          onClose={() => {
            creating.value = false;
            reload();
          }}
        />
      )}
    </>
  );
}

function stateOf(key: Key): string {
  if (key.revoked_at != null) return "revoked";
  return key.expires_at !== null && key.expires_at * 1000 < Date.now() ? "expired" : "active";
}

interface RowProps {
  readonly apiKey: Key;
  readonly reload: () => void;
  readonly problem: { value: unknown };
}

function Row({ apiKey: key, reload, problem }: RowProps) {
  const asking = useSignal<"revoke" | "delete" | undefined>(undefined);
  const state = stateOf(key);
  const label = visible(key.name || key.id);
  const act = async (action: "revoke" | "delete") => {
    const path = `/v1/admin/keys/${encodeURIComponent(key.id)}`;
    try {
      if (action === "revoke") await request(`${path}/revoke`, { method: "POST" });
      else await request(path, { method: "DELETE" });
      problem.value = undefined;
      reload();
    } catch (cause) {
      problem.value = cause;
    }
  };
  const ask = (action: "revoke" | "delete") => () => {
    asking.value = action;
  };
  return (
    <tr>
      <td>
        <Badge status={state} />
      </td>
      <td class="wide">{visible(key.name)}</td>
      <td>
        <Id value={key.id} />
      </td>
      <td data-label="tenant">{visible(key.tenant)}</td>
      <td data-label="scopes">{key.scopes.join(", ").replaceAll("responses:", "")}</td>
      <td class="nowrap" data-label="created">
        {moment(key.created_at)}
      </td>
      <td class="nowrap" data-label="expires">
        {key.expires_at === null ? "never" : moment(key.expires_at)}
      </td>
      <td>
        <div class="row tight">
          <Act
            label="Revoke"
            name={`Revoke ${label}`}
            scope="admin"
            off={state === "revoked" ? "This key is revoked already." : undefined}
            onClick={ask("revoke")}
          />
          <Act label="Delete" name={`Delete ${label}`} kind="danger" scope="admin" onClick={ask("delete")} />
        </div>
        {asking.value !== undefined && (
          <Confirm
            title={asking.value === "revoke" ? `Revoke “${label}”?` : `Delete “${label}”?`}
            action={asking.value === "revoke" ? "Revoke" : "Delete"}
            onConfirm={() => act(asking.value ?? "revoke")}
            onClose={() => {
              asking.value = undefined;
            }}
          >
            Requests and sessions with this key are rejected within a second.
          </Confirm>
        )}
      </td>
    </tr>
  );
}
