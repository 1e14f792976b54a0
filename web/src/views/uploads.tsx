import { useSignal } from "@preact/signals";
import type { TargetedEvent } from "preact";
import { useRef } from "preact/hooks";
import { bytes } from "../lib/format.ts";
import { whyNot } from "../lib/session.ts";
import { type FileObject, uploadFile } from "../lib/upload.ts";
import { Act, visible } from "./parts.tsx";

interface Upload {
  readonly number: number;
  readonly file: File;
  readonly part: number;
  /** Until the server has answered. */
  readonly abort: AbortController | undefined;
  readonly error?: string;
  readonly done?: boolean;
}

/** A place to drop files, and the progress of each. `onStored` gets every file that the server has stored. */
export function Uploads({ purpose, onStored }: { purpose: string; onStored: (file: FileObject) => unknown }) {
  const uploads = useSignal<readonly Upload[]>([]);
  const over = useSignal(false);
  const input = useRef<HTMLInputElement>(null);
  const change = (number: number, changes: Partial<Upload>) => {
    uploads.value = uploads.value.map((each) => (each.number === number ? { ...each, ...changes } : each));
  };
  const send = async (file: File) => {
    const number = uploads.value.length;
    const abort = new AbortController();
    uploads.value = [...uploads.value, { number, file, part: 0, abort }];
    try {
      const stored = await uploadFile(file, purpose, (part) => change(number, { part }), abort.signal);
      change(number, { part: 1, abort: undefined });
      await onStored(stored);
      change(number, { done: true });
    } catch (cause) {
      change(number, { error: cause instanceof Error ? cause.message : String(cause), abort: undefined });
    }
  };
  const take = (files: FileList | null | undefined) => {
    if (whyNot("write") === undefined) for (const file of files ?? []) void send(file);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    over.value = false;
    take(event.dataTransfer?.files);
  };
  const choose = (event: TargetedEvent<HTMLInputElement>) => {
    take(event.currentTarget.files);
    event.currentTarget.value = "";
  };
  return (
    <section
      class={over.value ? "drop over" : "drop"}
      aria-label="Upload files"
      onDragOver={(event) => {
        event.preventDefault();
        over.value = true;
      }}
      onDragLeave={() => {
        over.value = false;
      }}
      onDrop={drop}
    >
      <div class="row">
        <Act label="Choose files" kind="primary" scope="write" onClick={() => input.current?.click()} />
        <span class="muted">or drop them here</span>
        <input
          ref={input}
          type="file"
          multiple
          class="visually-hidden"
          tabIndex={-1}
          aria-label="Files to upload"
          onChange={choose}
        />
      </div>
      {uploads.value.length > 0 && (
        <ul class="uploads" aria-live="polite">
          {uploads.value.map((each) => (
            <UploadRow key={each.number} upload={each} />
          ))}
        </ul>
      )}
    </section>
  );
}

function UploadRow({ upload: { file, part, error, done, abort } }: { upload: Upload }) {
  const state = error ?? (done ? "stored" : part < 1 ? `${Math.round(part * 100)} %` : "being stored …");
  return (
    <li class="row">
      <span class="grow">{visible(file.name)}</span>
      <span class="muted">{bytes(file.size)}</span>
      <progress max={1} value={part} aria-label={`Upload of ${file.name}`} />
      <span class={error === undefined ? "upload-state" : "upload-state bad"}>{visible(state)}</span>
      {abort !== undefined && (
        <button
          type="button"
          class="link"
          aria-label={`Cancel the upload of ${file.name}`}
          onClick={() => abort.abort()}
        >
          Cancel
        </button>
      )}
    </li>
  );
}
