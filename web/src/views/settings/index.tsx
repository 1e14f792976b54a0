import { useSignal } from "@preact/signals";
import { EmptyState, Loading } from "../../components/states.tsx";
import { type Page, request } from "../../lib/api.ts";
import { binaryBytes } from "../../lib/format.ts";
import { useLoad } from "../../lib/load.ts";
import { whyNot } from "../../lib/session.ts";
import { Act, Badge, Failure, Head, Scrolled, visible } from "../parts.tsx";

interface Setting {
  readonly name: string;
  readonly value: unknown;
  readonly secret: boolean;
  readonly source: "default" | "file" | "env" | "option";
  readonly where: string | null;
  readonly doc: string | null;
}

const SOURCES: Readonly<Record<string, string>> = { env: "environment", option: "command line" };

export default function SettingsView() {
  const reason = whyNot("admin");
  return (
    <>
      {reason === undefined ? (
        <Settings />
      ) : (
        <>
          <Head title="Settings" />
          <EmptyState title="Settings are for administrators">{reason}</EmptyState>
        </>
      )}
    </>
  );
}

function Settings() {
  const wanted = useSignal("");
  const changed = useSignal(false);
  const { data, error, reload } = useLoad(
    (signal) => request<Page<Setting>>("/v1/admin/settings", { signal }),
    [],
  );
  const shown = (data?.data ?? []).filter(
    ({ name, source }) =>
      name.includes(wanted.value.trim().toLowerCase()) && !(changed.value && source === "default"),
  );
  const described = shown.some(({ doc }) => doc !== null);
  return (
    <>
      <Head title="Settings" about="What holds now, and where each value comes from. Secrets are not shown.">
        <Act label="Refresh" onClick={reload} />
      </Head>
      <div class="row filters">
        <label class="grow">
          <span class="visually-hidden">Filter by name</span>
          <input
            type="search"
            placeholder="Filter by name"
            value={wanted.value}
            onInput={({ currentTarget }) => {
              wanted.value = currentTarget.value;
            }}
          />
        </label>
        <label class="inline-label">
          <input
            type="checkbox"
            checked={changed.value}
            onChange={({ currentTarget }) => {
              changed.value = currentTarget.checked;
            }}
          />
          only changed
        </label>
      </div>
      <Failure error={error} retry={reload} />
      {data === undefined && error === undefined && <Loading />}
      {data !== undefined && shown.length === 0 && (
        <EmptyState title="No setting matches">Clear the filter.</EmptyState>
      )}
      {shown.length > 0 && (
        <Scrolled label="Settings">
          <table class="stacked">
            <thead>
              <tr>
                <th>name</th>
                <th>value</th>
                <th>comes from</th>
                {described && <th>meaning</th>}
              </tr>
            </thead>
            <tbody>
              {shown.map((each) => (
                <Row key={each.name} setting={each} described={described} />
              ))}
            </tbody>
          </table>
        </Scrolled>
      )}
    </>
  );
}

/** Whether a setting is in bytes, by its name or its meaning. */
function isSize({ name, doc }: Setting): boolean {
  return name.endsWith("_bytes") || /\bbytes\b/i.test(doc ?? "");
}

function Row({ setting, described }: { setting: Setting; described: boolean }) {
  const { name, value, secret, source, where, doc } = setting;
  return (
    <tr>
      <td>
        <code>{name}</code>
      </td>
      <td>
        <code class="value">{secret ? "•••" : visible(JSON.stringify(value))}</code>
        {isSize(setting) && typeof value === "number" && value > 0 && (
          <div class="muted">{binaryBytes(value)}</div>
        )}
      </td>
      <td>
        {source === "default" ? (
          <span class="muted">default</span>
        ) : (
          <Badge status={SOURCES[source] ?? source} />
        )}
        {where !== null && <div class="muted mono">{visible(where)}</div>}
      </td>
      {described && <td class="wide">{doc !== null && visible(doc)}</td>}
    </tr>
  );
}
