import { useSignal } from "@preact/signals";
import { Confirm, Dialog } from "../../components/dialog.tsx";
import { EmptyState, Loading } from "../../components/states.tsx";
import { listAll, type Page, request } from "../../lib/api.ts";
import { bytes } from "../../lib/format.ts";
import { useLoad, usePolling } from "../../lib/load.ts";
import { go } from "../../lib/router.ts";
import type { FileObject } from "../../lib/upload.ts";
import { moment } from "../figures.ts";
import { Act, Badge, Failure, Head, Id, LongText, Scrolled, visible } from "../parts.tsx";
import { Uploads } from "../uploads.tsx";
import { SearchBox } from "./search.tsx";
import type { StoreFile, VectorStore } from "./types.ts";

const LIVE_SECONDS = 1;
const IDLE_SECONDS = 15;
const MAX_FILES = 1000;
const CHUNKS_SHOWN = 50;

interface Shown {
  readonly store: VectorStore;
  readonly files: readonly StoreFile[];
  readonly names: ReadonlyMap<string, string>;
}

async function loadStore(path: string, signal: AbortSignal): Promise<Shown> {
  const [store, files, stored] = await Promise.all([
    request<VectorStore>(path, { signal }),
    listAll<StoreFile>(`${path}/files`, { limit: MAX_FILES }),
    listAll<FileObject>("/v1/files", { limit: MAX_FILES }),
  ]);
  return { store, files, names: new Map(stored.map((file) => [file.id, file.filename])) };
}

export function StoreView({ id }: { id: string }) {
  const path = `/v1/vector_stores/${encodeURIComponent(id)}`;
  const asking = useSignal(false);
  const problem = useSignal<unknown>(undefined);
  const { data, error, reload, refresh } = useLoad((signal) => loadStore(path, signal), [id]);
  const live = data?.files.some((file) => file.status === "in_progress") ?? false;
  usePolling(refresh, live ? LIVE_SECONDS : IDLE_SECONDS);
  const add = async (file: FileObject) => {
    await request(`${path}/files`, { method: "POST", body: { file_id: file.id } });
    reload();
  };
  const remove = async () => {
    try {
      await request(path, { method: "DELETE" });
      go(["stores"]);
    } catch (cause) {
      problem.value = cause;
    }
  };
  return (
    <>
      <Head
        title={
          data === undefined ? "Vector store" : visible(data.store.name ?? "Vector store without a name")
        }
      >
        {data !== undefined && (
          <Act
            label="Delete store"
            kind="danger"
            scope="delete"
            onClick={() => {
              asking.value = true;
            }}
          />
        )}
      </Head>
      <Failure error={error ?? problem.value} retry={reload} />
      {data === undefined && error === undefined && <Loading />}
      {data !== undefined && (
        <>
          <Facts store={data.store} />
          <SearchBox storeId={id} />
          <section aria-labelledby="store-files">
            <h2 id="store-files">Files</h2>
            <Uploads purpose="assistants" onStored={add} />
            <StoreFiles path={path} shown={data} reload={reload} />
          </section>
        </>
      )}
      {asking.value && (
        <Confirm
          title="Delete this vector store?"
          action="Delete store"
          onConfirm={remove}
          onClose={() => {
            asking.value = false;
          }}
        >
          Its chunks and vectors are erased. The files stay.
        </Confirm>
      )}
    </>
  );
}

function Facts({ store }: { store: VectorStore }) {
  const { file_counts: counts } = store;
  return (
    <dl class="properties">
      <dt>status</dt>
      <dd>
        <Badge status={store.status} />
      </dd>
      <dt>store</dt>
      <dd>
        <Id whole value={store.id} />
      </dd>
      <dt>files</dt>
      <dd>
        {counts.completed} of {counts.total} completed{counts.failed > 0 && `, ${counts.failed} failed`}
      </dd>
      <dt>size</dt>
      <dd>{bytes(store.usage_bytes)}</dd>
      <dt>created</dt>
      <dd>{moment(store.created_at)}</dd>
    </dl>
  );
}

function StoreFiles({ path, shown, reload }: { path: string; shown: Shown; reload: () => void }) {
  const opened = useSignal<StoreFile | undefined>(undefined);
  const { files, names } = shown;
  const nameOf = (file: StoreFile) => visible(names.get(file.id) ?? file.id);
  if (files.length === 0) {
    return (
      <EmptyState title="This store has no files">
        Drop one above; its text can be searched a moment later.
      </EmptyState>
    );
  }
  const remove = async (file: StoreFile) => {
    await request(`${path}/files/${file.id}`, { method: "DELETE" });
    reload();
  };
  return (
    <>
      <Scrolled label="Files of the store">
        <table>
          <thead>
            <tr>
              <th>status</th>
              <th>name</th>
              <th class="number">size with vectors</th>
              <th>chunks of</th>
              <th>
                <span class="visually-hidden">actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {files.map((file) => (
              <tr key={file.id}>
                <td>
                  <Badge status={file.status} />
                </td>
                <td class="wide">
                  {nameOf(file)}
                  {file.last_error !== null && <div class="bad-text">{visible(file.last_error.message)}</div>}
                </td>
                <td class="number">{bytes(file.usage_bytes)}</td>
                <td>{file.chunking_strategy.static?.max_chunk_size_tokens ?? "–"} tokens</td>
                <td>
                  <div class="row tight">
                    <Act
                      label="Chunks"
                      name={`Chunks of ${nameOf(file)}`}
                      off={file.status === "completed" ? undefined : "The file has no chunks yet."}
                      onClick={() => {
                        opened.value = file;
                      }}
                    />
                    <Act
                      label="Remove"
                      name={`Remove ${nameOf(file)}`}
                      kind="danger"
                      scope="delete"
                      onClick={() => remove(file)}
                    />
                  </div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolled>
      {opened.value !== undefined && (
        <Dialog
          drawer
          title={`Chunks of ${nameOf(opened.value)}`}
          onClose={() => {
            opened.value = undefined;
          }}
        >
          <Chunks path={`${path}/files/${opened.value.id}/content`} />
        </Dialog>
      )}
    </>
  );
}

function Chunks({ path }: { path: string }) {
  const shown = useSignal(CHUNKS_SHOWN);
  const { data, error } = useLoad((signal) => request<Page<{ text: string }>>(path, { signal }), [path]);
  if (error !== undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading />;
  const rest = data.data.length - shown.value;
  return (
    <>
      <p class="muted">{data.data.length} chunks</p>
      <ol class="chunks">
        {data.data.slice(0, shown.value).map(({ text }, index) => (
          <li key={index} class="card">
            <LongText text={text} />
          </li>
        ))}
      </ol>
      {rest > 0 && (
        <button
          type="button"
          onClick={() => {
            shown.value += CHUNKS_SHOWN;
          }}
        >
          Show more ({rest})
        </button>
      )}
    </>
  );
}
