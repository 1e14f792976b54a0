import { useSignal } from "@preact/signals";
import { CopyButton } from "../../components/buttons.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { request } from "../../lib/api.ts";
import { session } from "../../lib/session.ts";
import { Failure } from "../parts.tsx";
import type { CreatedKey } from "./types.ts";

const SCOPES = [
  ["responses:read", "read"],
  ["responses:write", "write"],
  ["responses:delete", "delete"],
  ["admin", "admin: keys, settings, conformance"],
] as const;
const DAY_SECONDS = 86_400;

export function NewKey({ isFirst, onClose }: { isFirst: boolean; onClose: () => void }) {
  const created = useSignal<CreatedKey | undefined>(undefined);
  return (
    <Dialog title={created.value === undefined ? "New key" : "Save this key now"} onClose={onClose}>
      {created.value === undefined ? (
        <Form
          isFirst={isFirst}
          onCreated={(key) => {
            created.value = key;
          }}
        />
      ) : (
        <>
          <p>It is shown only once: the server stores a digest of it.</p>
          <div class="row">
            <code class="grow secret">{created.value.key}</code>
            <CopyButton text={created.value.key} label="Copy the key" />
          </div>
        </>
      )}
    </Dialog>
  );
}

function Form({ isFirst, onCreated }: { isFirst: boolean; onCreated: (key: CreatedKey) => void }) {
  const name = useSignal("");
  const tenant = useSignal(session.value?.tenant ?? "default");
  const days = useSignal("");
  const scopes = useSignal<readonly string[]>(
    isFirst ? SCOPES.map(([scope]) => scope) : ["responses:read", "responses:write", "responses:delete"],
  );
  const error = useSignal<unknown>(undefined);
  const create = async (event: Event) => {
    event.preventDefault();
    const lifetime = Number(days.value);
    const body = {
      name: name.value,
      tenant: tenant.value,
      scopes: scopes.value,
      ...(lifetime > 0 ? { expires_at: Math.round(Date.now() / 1000 + lifetime * DAY_SECONDS) } : {}),
    };
    try {
      onCreated(await request<CreatedKey>("/v1/admin/keys", { method: "POST", body }));
    } catch (cause) {
      error.value = cause;
    }
  };
  const toggle = (scope: string, on: boolean) => {
    const others = scopes.value.filter((each) => each !== scope);
    scopes.value = on ? [...others, scope] : others;
  };
  return (
    <form onSubmit={create}>
      {isFirst && (
        <p class="notice">This is the first key: from now on every request needs one, also this page.</p>
      )}
      <label>
        Name
        <input
          value={name.value}
          placeholder="laptop"
          onInput={({ currentTarget }) => {
            name.value = currentTarget.value;
          }}
        />
      </label>
      <label>
        Tenant
        <input
          required
          value={tenant.value}
          onInput={({ currentTarget }) => {
            tenant.value = currentTarget.value;
          }}
        />
      </label>
      <fieldset>
        <legend>Scopes</legend>
        {SCOPES.map(([scope, label]) => (
          <label key={scope} class="inline-label">
            <input
              type="checkbox"
              checked={scopes.value.includes(scope)}
              onChange={({ currentTarget }) => toggle(scope, currentTarget.checked)}
            />
            {label}
          </label>
        ))}
      </fieldset>
      <label>
        Valid for days
        <input
          type="number"
          min={1}
          max={3650}
          placeholder="until it is revoked"
          value={days.value}
          onInput={({ currentTarget }) => {
            days.value = currentTarget.value;
          }}
        />
      </label>
      <Failure error={error.value} />
      <div class="row end">
        <button type="submit" class="action primary" disabled={scopes.value.length === 0}>
          Create
        </button>
      </div>
    </form>
  );
}
