import { useSignal } from "@preact/signals";
import { Dialog } from "../../components/dialog.tsx";
import { EmptyState, Loading } from "../../components/states.tsx";
import type { ViewProps } from "../../components/view.ts";
import { type Page, request } from "../../lib/api.ts";
import { bytes } from "../../lib/format.ts";
import { useLoad, usePolling } from "../../lib/load.ts";
import { go } from "../../lib/router.ts";
import { age } from "../figures.ts";
import { Act, Badge, Failure, Head, Id, Scrolled, visible } from "../parts.tsx";
import { StoreView } from "./store.tsx";
import type { VectorStore } from "./types.ts";

const REFRESH_SECONDS = 10;
const PAGE_SIZE = 100;

export default function StoresView({ path: [id] }: ViewProps) {
  return id === undefined ? <StoreList /> : <StoreView key={id} id={id} />;
}

function StoreList() {
  const creating = useSignal(false);
  const { data, error, reload, refresh } = useLoad(
    (signal) => request<Page<VectorStore>>("/v1/vector_stores", { query: { limit: PAGE_SIZE }, signal }),
    [],
  );
  usePolling(refresh, REFRESH_SECONDS);
  return (
    <>
      <Head title="Vector stores" about="Documents in searchable pieces.">
        <Act
          label="New store"
          kind="primary"
          scope="write"
          onClick={() => {
            creating.value = true;
          }}
        />
      </Head>
      <Failure error={error} retry={reload} />
      {data === undefined && error === undefined && <Loading />}
      {data !== undefined && data.data.length === 0 && (
        <EmptyState title="No vector stores yet">
          Make one with “New store”, add files, and name it in the <code>file_search</code> tool of a request.
        </EmptyState>
      )}
      {data !== undefined && data.data.length > 0 && <StoreTable stores={data.data} />}
      {creating.value && (
        <NewStore
          onClose={() => {
            creating.value = false;
          }}
        />
      )}
    </>
  );
}

function StoreTable({ stores }: { stores: readonly VectorStore[] }) {
  return (
    <Scrolled label="Vector stores">
      <table>
        <thead>
          <tr>
            <th>status</th>
            <th>name</th>
            <th>store</th>
            <th class="number">files</th>
            <th class="number">size</th>
            <th>used last</th>
          </tr>
        </thead>
        <tbody>
          {stores.map((store) => (
            <tr key={store.id}>
              <td>
                <Badge status={store.status} />
              </td>
              <td class="wide">
                <a href={`#/stores/${store.id}`}>{visible(store.name ?? "without a name")}</a>
              </td>
              <td>
                <Id value={store.id} />
              </td>
              <td class="number">
                {store.file_counts.completed}/{store.file_counts.total}
              </td>
              <td class="number">{bytes(store.usage_bytes)}</td>
              <td class="nowrap">{age(store.last_active_at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scrolled>
  );
}

function NewStore({ onClose }: { onClose: () => void }) {
  const name = useSignal("");
  const error = useSignal<unknown>(undefined);
  const create = async (event: Event) => {
    event.preventDefault();
    try {
      const body = name.value === "" ? {} : { name: name.value };
      const store = await request<VectorStore>("/v1/vector_stores", { method: "POST", body });
      onClose();
      go(["stores", store.id]);
    } catch (cause) {
      error.value = cause;
    }
  };
  return (
    <Dialog title="New vector store" onClose={onClose}>
      <form onSubmit={create}>
        <label>
          Name
          <input
            value={name.value}
            maxLength={256}
            onInput={({ currentTarget }) => {
              name.value = currentTarget.value;
            }}
          />
        </label>
        <Failure error={error.value} />
        <div class="row end">
          <button type="submit" class="action primary">
            Create
          </button>
        </div>
      </form>
    </Dialog>
  );
}
