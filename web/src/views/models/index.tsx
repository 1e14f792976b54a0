import { Loading } from "../../components/states.tsx";
import { ApiError, type Page, request } from "../../lib/api.ts";
import { useLoad, usePolling } from "../../lib/load.ts";
import { Act, Failure, Head } from "../parts.tsx";
import { Conformance } from "./conformance.tsx";
import { Matrix } from "./matrix.tsx";
import type { Model, Upstream } from "./types.ts";
import { Upstreams } from "./upstreams.tsx";

const REFRESH_SECONDS = 5;

/** Undefined for a key without the scope of administrators. */
async function loadUpstreams(signal: AbortSignal): Promise<readonly Upstream[] | undefined> {
  try {
    return (await request<Page<Upstream>>("/v1/upstreams", { signal })).data;
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return undefined;
    throw error;
  }
}

export default function ModelsView() {
  const upstreams = useLoad(loadUpstreams, []);
  const models = useLoad((signal) => request<Page<Model>>("/v1/models", { signal }), []);
  usePolling(upstreams.refresh, REFRESH_SECONDS);
  const reload = () => {
    upstreams.reload();
    models.reload();
  };
  return (
    <>
      <Head title="Models" about="The model servers behind this one, and what each model can do here.">
        <Act label="Refresh" onClick={reload} />
      </Head>
      <Failure error={upstreams.error ?? models.error} retry={reload} />
      <section aria-labelledby="upstreams">
        <h2 id="upstreams">Upstreams</h2>
        {upstreams.data !== undefined && <Upstreams upstreams={upstreams.data} />}
        {upstreams.data === undefined && !upstreams.loading && upstreams.error === undefined && (
          <p class="muted">Only keys with the “admin” scope see the upstreams.</p>
        )}
      </section>
      {models.data === undefined ? (
        <Loading />
      ) : (
        <>
          <section aria-labelledby="capabilities">
            <h2 id="capabilities">Capabilities</h2>
            <Matrix models={models.data.data} />
          </section>
          <Conformance models={models.data.data} />
        </>
      )}
    </>
  );
}
