import { useSignal } from "@preact/signals";
import { Confirm } from "../../components/dialog.tsx";
import { EmptyState, Loading } from "../../components/states.tsx";
import type { ViewProps } from "../../components/view.ts";
import { type Page, request, send } from "../../lib/api.ts";
import { bytes } from "../../lib/format.ts";
import { useLoad } from "../../lib/load.ts";
import { deleteFile, type FileObject, saveAs } from "../../lib/upload.ts";
import { age, moment } from "../figures.ts";
import { Act, Badge, Failure, Head, Id, Scrolled, visible } from "../parts.tsx";
import { Uploads } from "../uploads.tsx";
import { FileDrawer } from "./drawer.tsx";

const PAGE_SIZE = 50;
const PURPOSES = ["assistants", "user_data", "vision", "batch", "fine-tune", "evals"];

export default function FilesView({ path: [id] }: ViewProps) {
  return (
    <>
      <FileList />
      {id !== undefined && <FileDrawer key={id} id={id} />}
    </>
  );
}

function FileList() {
  const purpose = useSignal("assistants");
  const more = useSignal<readonly FileObject[]>([]);
  const hasMore = useSignal(false);
  const problem = useSignal<unknown>(undefined);
  const {
    data,
    error,
    loading,
    reload: load,
  } = useLoad(async (signal) => {
    const page = await request<Page<FileObject>>("/v1/files", { query: { limit: PAGE_SIZE }, signal });
    more.value = [];
    hasMore.value = page.has_more ?? false;
    return page.data;
  }, []);
  const files = [...(data ?? []), ...more.value];
  const loadMore = async () => {
    const query = { limit: PAGE_SIZE, after: files.at(-1)?.id };
    const page = await request<Page<FileObject>>("/v1/files", { query });
    more.value = [...more.value, ...page.data];
    hasMore.value = page.has_more ?? false;
  };
  return (
    <>
      <Head title="Files" about="What clients have stored: input of requests, and content of vector stores.">
        <label class="inline-label">
          Purpose
          <select
            value={purpose.value}
            onChange={({ currentTarget }) => (purpose.value = currentTarget.value)}
          >
            {PURPOSES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      </Head>
      <Uploads purpose={purpose.value} onStored={load} />
      <Failure error={error ?? problem.value} retry={load} />
      {data === undefined && loading && <Loading />}
      {data !== undefined && files.length === 0 && (
        <EmptyState title="No files yet">
          Drop one above, or send it with <code>POST /v1/files</code>. Then add it to a{" "}
          <a href="#/stores">vector store</a> to search it.
        </EmptyState>
      )}
      {files.length > 0 && (
        <Scrolled label="Files">
          <table class="stacked">
            <thead>
              <tr>
                <th>name</th>
                <th>file</th>
                <th>purpose</th>
                <th class="number">size</th>
                <th>created</th>
                <th>expires</th>
                <th>status</th>
                <th>
                  <span class="visually-hidden">actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {files.map((file) => (
                <FileRow
                  key={file.id}
                  file={file}
                  reload={load}
                  problem={(cause) => (problem.value = cause)}
                />
              ))}
            </tbody>
          </table>
        </Scrolled>
      )}
      {hasMore.value && <Act label="Load more" onClick={loadMore} />}
    </>
  );
}

interface RowProps {
  readonly file: FileObject;
  readonly reload: () => void;
  readonly problem: (cause: unknown) => void;
}

function FileRow({ file, reload, problem }: RowProps) {
  const asking = useSignal(false);
  const attempt = async (action: () => Promise<unknown>) => {
    try {
      await action();
      problem(undefined);
    } catch (cause) {
      problem(cause);
    }
  };
  const download = async () =>
    saveAs(file.filename, await (await send(`/v1/files/${file.id}/content`)).blob());
  const remove = async () => {
    await deleteFile(file.id);
    reload();
  };
  return (
    <tr>
      <td class="wide">
        <a href={`#/files/${file.id}`}>{visible(file.filename)}</a>
      </td>
      <td>
        <Id value={file.id} />
      </td>
      <td data-label="purpose">{file.purpose}</td>
      <td class="number" data-label="size">
        {bytes(file.bytes)}
      </td>
      <td class="nowrap" data-label="created">
        {age(file.created_at)}
      </td>
      <td data-label="expires">{file.expires_at === null ? "never" : moment(file.expires_at)}</td>
      <td>
        <Badge status={file.status} />
      </td>
      <td>
        <div class="row tight">
          <Act
            label="Download"
            name={`Download ${file.filename}`}
            scope="read"
            onClick={() => attempt(download)}
          />
          <Act
            label="Delete"
            name={`Delete ${file.filename}`}
            kind="danger"
            scope="delete"
            onClick={() => {
              asking.value = true;
            }}
          />
        </div>
        {asking.value && (
          <Confirm
            title="Delete this file?"
            action="Delete"
            onConfirm={() => attempt(remove)}
            onClose={() => {
              asking.value = false;
            }}
          >
            “{visible(file.filename)}” disappears from every vector store as well. This cannot be undone.
          </Confirm>
        )}
      </td>
    </tr>
  );
}
