import { Dialog } from "../../components/dialog.tsx";
import { Loading } from "../../components/states.tsx";
import { request, send } from "../../lib/api.ts";
import { bytes } from "../../lib/format.ts";
import { useLoad } from "../../lib/load.ts";
import { go, place } from "../../lib/router.ts";
import type { FileObject } from "../../lib/upload.ts";
import { moment } from "../figures.ts";
import { Badge, Failure, Id, LongText, visible } from "../parts.tsx";

/** More is downloaded, not shown. */
const MAX_PREVIEW_BYTES = 2_000_000;

interface Opened {
  readonly file: FileObject;
  /** Undefined if the file is too large, or is not text. */
  readonly text: string | undefined;
}

async function load(id: string, signal: AbortSignal): Promise<Opened> {
  const path = `/v1/files/${encodeURIComponent(id)}`;
  const file = await request<FileObject>(path, { signal });
  if (file.bytes > MAX_PREVIEW_BYTES) return { file, text: undefined };
  const content = await (await send(`${path}/content`, { signal })).arrayBuffer();
  return { file, text: textOf(content) };
}

function textOf(content: ArrayBuffer): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

/** One file: what is known of it, and its text. */
export function FileDrawer({ id }: { id: string }) {
  const { data, error, reload } = useLoad((signal) => load(id, signal), [id]);
  const close = () => {
    if (place.value.path[1] === id) go(["files"]);
  };
  return (
    <Dialog drawer title={data === undefined ? "File" : visible(data.file.filename)} onClose={close}>
      <Failure error={error} retry={reload} />
      {data === undefined && error === undefined && <Loading />}
      {data !== undefined && (
        <>
          <Facts file={data.file} />
          {data.text === undefined ? (
            <p class="muted">The content is no text, or too long to be shown here. Download it.</p>
          ) : (
            <LongText mono text={data.text} />
          )}
        </>
      )}
    </Dialog>
  );
}

function Facts({ file }: { file: FileObject }) {
  return (
    <dl class="properties">
      <dt>status</dt>
      <dd>
        <Badge status={file.status} />
      </dd>
      <dt>file</dt>
      <dd>
        <Id whole value={file.id} />
      </dd>
      <dt>purpose</dt>
      <dd>{file.purpose}</dd>
      <dt>size</dt>
      <dd>{bytes(file.bytes)}</dd>
      <dt>created</dt>
      <dd>{moment(file.created_at)}</dd>
      <dt>expires</dt>
      <dd>{file.expires_at === null ? "never" : moment(file.expires_at)}</dd>
    </dl>
  );
}
