import { useState } from "preact/hooks";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorState, Loading } from "../../components/states.tsx";
import { request } from "../../lib/api.ts";
import { count } from "../../lib/format.ts";
import { useLoad } from "../../lib/load.ts";

type Levels = Readonly<Record<string, { readonly level: string; readonly why?: string }>>;

interface ModelCapabilities {
  readonly backend: string;
  readonly dialect: string;
  readonly context_window: number | null;
  readonly features: Levels;
  readonly tools: Levels;
  readonly service: Levels;
}

const KINDS: Readonly<Record<string, string>> = { native: "good", emulated: "warn", unsupported: "bad" };

export function Capabilities({ model }: { model: string }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Capabilities
      </button>
      {open && (
        <Dialog drawer title={`What ${model} can do`} onClose={() => setOpen(false)}>
          <Table model={model} />
        </Dialog>
      )}
    </>
  );
}

function Table({ model }: { model: string }) {
  const { data, error } = useLoad(
    (signal) =>
      request<ModelCapabilities>(`/v1/models/${encodeURIComponent(model)}/capabilities`, { signal }),
    [model],
  );
  if (error !== undefined) return <ErrorState error={error} />;
  if (data === undefined) return <Loading />;
  return (
    <>
      <p class="muted">
        {data.backend} · {data.dialect} ·{" "}
        {data.context_window === null
          ? "context window unknown"
          : `context of ${count(data.context_window)} tokens`}
      </p>
      {(["features", "tools", "service"] as const).map((group) => (
        <section key={group}>
          <h3>{group}</h3>
          <table>
            <tbody>
              {Object.entries(data[group]).map(([name, { level, why }]) => (
                <tr key={name}>
                  <th scope="row">{name.replaceAll("_", " ")}</th>
                  <td>
                    <span class={`badge ${KINDS[level] ?? ""}`}>{level}</span>
                  </td>
                  <td class="muted">{why}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      ))}
    </>
  );
}
