import { EmptyState, Loading } from "../../components/states.tsx";
import { request } from "../../lib/api.ts";
import { count } from "../../lib/format.ts";
import { useLoad } from "../../lib/load.ts";
import { Failure, Scrolled, visible } from "../parts.tsx";
import type { Capabilities, Model, Support } from "./types.ts";

const MAX_MODELS = 40;
const SIGNS = { native: "●", emulated: "◐", unsupported: "○" } as const;

export function Matrix({ models }: { models: readonly Model[] }) {
  const shown = models.filter((model) => model.kind !== "embedding").slice(0, MAX_MODELS);
  const ids = shown.map((model) => model.id).join("\n");
  const { data, error, reload } = useLoad((signal) => loadAll(shown, signal), [ids]);
  if (error !== undefined) return <Failure error={error} retry={reload} />;
  if (data === undefined) return <Loading />;
  if (data.length === 0) return <EmptyState title="No models">The upstreams above serve none.</EmptyState>;
  return (
    <>
      <p class="muted">
        ● native, ◐ emulated by this server, ○ not supported. A sign with a triangle opens its reason.
        {models.length > MAX_MODELS && ` The first ${MAX_MODELS} models are shown.`}
      </p>
      <Scrolled label="Capabilities by model">
        <table class="matrix">
          <thead>
            <tr>
              <th scope="col">capability</th>
              {data.map((each) => (
                <th key={each.model} scope="col">
                  <a href={`#/playground?model=${encodeURIComponent(each.model)}`}>{visible(each.model)}</a>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">context window</th>
              {data.map((each) => (
                <td key={each.model}>{each.context_window === null ? "–" : count(each.context_window)}</td>
              ))}
            </tr>
            <tr>
              <th scope="row">dialect</th>
              {data.map((each) => (
                <td key={each.model}>{each.dialect.replaceAll("_", " ")}</td>
              ))}
            </tr>
            <Group title="Features" all={data} pick={(each) => each.features} />
            <Group title="Tools" all={data} pick={(each) => each.tools} />
            <Group title="Service" all={data} pick={(each) => each.service} />
          </tbody>
        </table>
      </Scrolled>
    </>
  );
}

function loadAll(models: readonly Model[], signal: AbortSignal): Promise<Capabilities[]> {
  const path = (id: string) => `/v1/models/${id.split("/").map(encodeURIComponent).join("/")}/capabilities`;
  return Promise.all(models.map(({ id }) => request<Capabilities>(path(id), { signal })));
}

interface GroupProps {
  readonly title: string;
  readonly all: readonly Capabilities[];
  readonly pick: (each: Capabilities) => Readonly<Record<string, Support>>;
}

function Group({ title, all, pick }: GroupProps) {
  const names = [...new Set(all.flatMap((each) => Object.keys(pick(each))))];
  return (
    <>
      <tr>
        <th scope="rowgroup" colSpan={all.length + 1} class="group">
          {title}
        </th>
      </tr>
      {names.map((name) => (
        <tr key={name}>
          <th scope="row">{name.replaceAll("_", " ")}</th>
          {all.map((each) => (
            <Cell key={each.model} support={pick(each)[name]} />
          ))}
        </tr>
      ))}
    </>
  );
}

function Cell({ support }: { support: Support | undefined }) {
  if (support === undefined) return <td>–</td>;
  return (
    <td class={`support ${support.level}`}>
      {support.why ? (
        <details>
          <summary>
            <Sign level={support.level} />
          </summary>
          {visible(support.why)}
        </details>
      ) : (
        <Sign level={support.level} />
      )}
    </td>
  );
}

function Sign({ level }: { level: Support["level"] }) {
  return (
    <span title={level}>
      <span aria-hidden="true">{SIGNS[level]}</span>
      <span class="visually-hidden">{level}</span>
    </span>
  );
}
