import type { ComponentChildren } from "preact";
import { ApiError } from "../lib/api.ts";
import { CopyButton } from "./buttons.tsx";

/** What stands where a list would: why it is empty, and what to do next. */
export function EmptyState({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children !== undefined && <div class="muted">{children}</div>}
    </div>
  );
}

export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <p class="loading" role="status">
      {what}…
    </p>
  );
}

/** An error with everything a report needs: message, parameter, code and request id. */
export function ErrorState({ error, retry }: { error: unknown; retry?: () => void }) {
  const message = error instanceof Error ? error.message : String(error);
  const known = error instanceof ApiError ? error : undefined;
  return (
    <div class="error" role="alert">
      <p class="error-message">{message}</p>
      {known !== undefined && (
        <p class="error-facts">
          {known.status > 0 && <span>{known.status}</span>}
          <span>{known.type}</span>
          {known.code !== null && <code>{known.code}</code>}
          {known.param !== null && <code>param: {known.param}</code>}
          {known.requestId !== null && (
            <span>
              <code>{known.requestId}</code> <CopyButton text={known.requestId} label="Copy the request id" />
            </span>
          )}
        </p>
      )}
      {retry !== undefined && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}
