import { useRef, useState } from "preact/hooks";
import { Action } from "../../components/buttons.tsx";
import { CodeDialog } from "../../components/code-dialog.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Text } from "../../components/plain-text.tsx";
import { ErrorState } from "../../components/states.tsx";
import { bytes } from "../../lib/format.ts";
import { whyNot } from "../../lib/session.ts";
import { type Attachment, headersOf, inputOf } from "./request.ts";
import { attachments, bodyFor, busy, columns, draft, options, start, stop } from "./state.ts";

const MAX_ATTACHMENT_BYTES = 20_000_000;

function read(file: File): Promise<Attachment> {
  return new Promise((resolve, reject) => {
    if (file.size > MAX_ATTACHMENT_BYTES) {
      const limit = bytes(MAX_ATTACHMENT_BYTES);
      reject(
        new Error(
          `${file.name} is larger than ${limit}. Upload it under Files and search it with a vector store.`,
        ),
      );
      return;
    }
    const reader = new FileReader();
    reader.onload = () =>
      resolve({ name: file.name, url: String(reader.result), image: file.type.startsWith("image/") });
    reader.onerror = () => reject(new Error(`${file.name} could not be read.`));
    reader.readAsDataURL(file);
  });
}

export function Composer() {
  const [error, setError] = useState<unknown>();
  const [showsCode, setShowsCode] = useState(false);
  const picker = useRef<HTMLInputElement>(null);
  const attach = async (files: Iterable<File>) => {
    try {
      const added = await Promise.all([...files].map(read));
      attachments.value = [...attachments.value, ...added];
    } catch (failure) {
      setError(failure);
    }
  };
  const empty = draft.value.trim() === "" && attachments.value.length === 0;
  const send = () => {
    if (whyNot("write") !== undefined || sendOff(empty) !== undefined || busy.value) return;
    try {
      const input = inputOf(draft.value, attachments.value);
      for (const column of columns.value) bodyFor(column, input);
      start(columns.value, input);
      draft.value = "";
      attachments.value = [];
      setError(undefined);
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <form
      class="composer"
      aria-label="Message"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        attach(event.dataTransfer?.files ?? []);
      }}
    >
      {error !== undefined && <ErrorState error={error} />}
      <AttachmentList />
      <textarea
        rows={3}
        aria-label="Message"
        placeholder="Write a message. Drop or paste files and images here."
        value={draft.value}
        onInput={(event) => {
          draft.value = event.currentTarget.value;
        }}
        onPaste={(event) => {
          const files = event.clipboardData?.files;
          if (files !== undefined && files.length > 0) {
            event.preventDefault();
            attach(files);
          }
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            send();
          }
        }}
      />
      <div class="row">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files to attach"
          onChange={(event) => attach(event.currentTarget.files ?? [])}
        />
        <button type="button" onClick={() => picker.current?.click()}>
          Attach
        </button>
        <button type="button" onClick={() => setShowsCode(true)}>
          Copy as code
        </button>
        <span class="grow muted hint">Enter sends, Shift+Enter makes a line</span>
        {busy.value ? (
          <button type="button" class="action danger" onClick={stopAll}>
            Stop
          </button>
        ) : (
          <Action kind="primary" scope="write" off={sendOff(empty)} onClick={send}>
            Send
          </Action>
        )}
      </div>
      {showsCode && <NextRequest onClose={() => setShowsCode(false)} />}
    </form>
  );
}

function sendOff(empty: boolean): string | undefined {
  if (columns.value.some(({ model }) => model.value === "")) return "Pick a model first.";
  return empty ? "Write a message first." : undefined;
}

function stopAll(): void {
  for (const { turns } of columns.value) for (const turn of turns.value) if (!turn.ended) stop(turn);
}

function AttachmentList() {
  if (attachments.value.length === 0) return null;
  return (
    <ul class="attachments">
      {attachments.value.map((attachment, index) => (
        <li key={index}>
          {attachment.image ? <img src={attachment.url} alt="" /> : null} <Text text={attachment.name} />
          <button
            type="button"
            class="icon"
            aria-label={`Remove ${attachment.name}`}
            onClick={() => {
              attachments.value = attachments.value.filter((other) => other !== attachment);
            }}
          >
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}

/** The request that the message would be, as code; a message that is not yet written is “Hello”. */
function NextRequest({ onClose }: { onClose: () => void }) {
  const [column] = columns.value;
  if (column === undefined) return null;
  try {
    const input = inputOf(draft.value === "" ? "Hello" : draft.value, attachments.value);
    return <CodeDialog body={bodyFor(column, input)} headers={headersOf(options.value)} onClose={onClose} />;
  } catch (error) {
    return (
      <Dialog title="Copy as code" drawer onClose={onClose}>
        <ErrorState error={error} />
      </Dialog>
    );
  }
}
