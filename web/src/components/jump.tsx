import { useState } from "preact/hooks";
import { request } from "../lib/api.ts";
import { go } from "../lib/router.ts";
import { Dialog } from "./dialog.tsx";
import { ErrorState } from "./states.tsx";

interface Lookup {
  readonly kind: "response" | "conversation" | "agent_run" | "file" | "vector_store" | "item" | "request";
  readonly id: string;
  readonly response_id?: string | null;
}

/** Where a lookup's object is shown. */
function placeOf({ kind, id, response_id }: Lookup): string[] {
  switch (kind) {
    case "response":
      return ["responses", id];
    case "conversation":
      return ["chains", id];
    case "agent_run":
      return ["runs", id];
    case "file":
      return ["files", id];
    case "vector_store":
      return ["stores", id];
    case "item":
    case "request":
      return ["responses", response_id ?? id];
  }
}

/** Opens anything that has an id: `resp_`, `conv_`, `run_`, `file-`, `vs_`, `req_`, or an item's. */
export function JumpDialog({ onClose }: { onClose: () => void }) {
  const [id, setId] = useState("");
  const [error, setError] = useState<unknown>();
  const jump = async (event: Event) => {
    event.preventDefault();
    try {
      const found = await request<Lookup>(`/v1/lookup/${encodeURIComponent(id.trim())}`);
      go(placeOf(found));
      onClose();
    } catch (failure) {
      setError(failure);
    }
  };
  const searchText = () => {
    go(["responses"], { text: id.trim() });
    onClose();
  };
  return (
    <Dialog title="Jump to" onClose={onClose}>
      <form onSubmit={jump}>
        <input
          // No search field: it would take the first Escape to clear itself, which should close the dialog.
          type="text"
          spellcheck={false}
          autocomplete="off"
          aria-label="Id"
          placeholder="resp_… conv_… run_… file-… vs_… req_…"
          value={id}
          required
          autofocus
          onInput={(event) => setId(event.currentTarget.value)}
        />
        {error !== undefined && <ErrorState error={error} />}
        <div class="row end">
          <button type="button" onClick={searchText} disabled={id.trim() === ""}>
            Search responses for this text
          </button>
          <button type="submit" class="action primary">
            Open
          </button>
        </div>
      </form>
    </Dialog>
  );
}
