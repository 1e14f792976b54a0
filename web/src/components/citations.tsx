import { useState } from "preact/hooks";
import { send } from "../lib/api.ts";
import { useLoad } from "../lib/load.ts";
import { safeHref } from "../lib/markdown.ts";
import { passagesOf } from "../lib/passages.ts";
import type { Annotation, Item, SearchHit } from "../lib/types.ts";
import { Dialog } from "./dialog.tsx";
import { SafeLink } from "./markdown.tsx";
import { Pre, Text } from "./plain-text.tsx";
import { ErrorState, Loading } from "./states.tsx";

/** The sources of a text. One of a file opens the passage that is cited. */
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
  const { cited, others } = passagesOf(annotation, siblings);
  const label = annotation.antiphon?.label;
  return (
    <>
      {cited.map((hit, index) => (
        <section key={index} class="stack" aria-label="Cited passage">
          <h3>
            <PassageTitle hit={hit} />
          </h3>
          <Pre text={hit.text ?? ""} />
        </section>
      ))}
      {cited.length === 0 && (
        <>
          {label && (
            <p>
              The citation names <Text text={label} />.
            </p>
          )}
          <FileText fileId={annotation.file_id ?? ""} />
        </>
      )}
      {others.length > 0 && <h3>Other passages of this file that were found</h3>}
      {others.map((hit, index) => (
        <details key={index}>
          <summary>
            <PassageTitle hit={hit} />
          </summary>
          <Pre text={hit.text ?? ""} />
        </details>
      ))}
      <a href={`#/files/${annotation.file_id}`}>Open the file</a>
    </>
  );
}

/** `Passage 4, page 3 · score 0.812`: places are counted from 1. */
function PassageTitle({ hit: { antiphon: place, score } }: { hit: SearchHit }) {
  return (
    <>
      Passage{place?.chunk !== undefined && ` ${place.chunk + 1}`}
      {place?.label && (
        <>
          , <Text text={place.label} />
        </>
      )}
      {score !== undefined && <span class="muted"> · score {score.toFixed(3)}</span>}
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
