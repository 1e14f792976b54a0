import { useState } from "preact/hooks";
import { send } from "../lib/api.ts";
import { useLoad } from "../lib/load.ts";
import { safeHref } from "../lib/markdown.ts";
import type { Annotation, Item } from "../lib/types.ts";
import { Dialog } from "./dialog.tsx";
import { SafeLink } from "./markdown.tsx";
import { Pre, Text } from "./plain-text.tsx";
import { ErrorState, Loading } from "./states.tsx";

/** The sources of a text. One of a file opens the passage that was found. */
export function Citations({
  annotations,
  siblings,
}: {
  annotations: readonly Annotation[];
  siblings: readonly Item[];
}) {
  const [open, setOpen] = useState<Annotation>();
  return (
    <div class="citations">
      {annotations.map((annotation, index) =>
        annotation.url !== undefined ? (
          <SafeLink key={index} href={safeHref(annotation.url)}>
            [{index + 1}] <Text text={annotation.title ?? annotation.url} />
          </SafeLink>
        ) : (
          <button key={index} type="button" class="link" onClick={() => setOpen(annotation)}>
            [{index + 1}] <Text text={annotation.filename ?? annotation.file_id ?? annotation.type} />
          </button>
        ),
      )}
      {open !== undefined && (
        <Dialog drawer title={open.filename ?? open.file_id ?? "Source"} onClose={() => setOpen(undefined)}>
          <Source annotation={open} siblings={siblings} />
        </Dialog>
      )}
    </div>
  );
}

function Source({ annotation, siblings }: { annotation: Annotation; siblings: readonly Item[] }) {
  const hits = siblings
    .flatMap((item) => item.results ?? [])
    .filter(({ file_id }) => file_id !== undefined && file_id === annotation.file_id);
  if (hits.length === 0) return <FileText fileId={annotation.file_id ?? ""} />;
  return (
    <>
      {hits.map((hit, index) => (
        <section key={index} class="stack">
          <h3>
            Passage {index + 1}
            {hit.score !== undefined && <span class="muted"> · score {hit.score.toFixed(3)}</span>}
          </h3>
          <Pre text={hit.text ?? ""} />
        </section>
      ))}
      <a href={`#/files/${annotation.file_id}`}>Open the file</a>
    </>
  );
}

function FileText({ fileId }: { fileId: string }) {
  const { data, error } = useLoad(
    async (signal) => (await send(`/v1/files/${encodeURIComponent(fileId)}/content`, { signal })).text(),
    [fileId],
  );
  if (error !== undefined) return <ErrorState error={error} />;
  return data === undefined ? <Loading /> : <Pre text={data} />;
}
