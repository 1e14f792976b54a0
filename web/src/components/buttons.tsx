import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { copyText } from "../lib/clipboard.ts";
import { type Scope, whyNot } from "../lib/session.ts";

const COPIED_MS = 1500;

export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [state, setState] = useState<"idle" | "copied" | "failed">("idle");
  const copy = async (event: Event) => {
    event.stopPropagation();
    setState((await copyText(typeof text === "string" ? text : text())) ? "copied" : "failed");
    setTimeout(() => setState("idle"), COPIED_MS);
  };
  return (
    <button type="button" class="icon" title={label} aria-label={label} onClick={copy}>
      {state === "idle" ? <CopyIcon /> : state === "copied" ? "✓" : "✗"}
    </button>
  );
}

function CopyIcon() {
  return (
    <svg width="14" height="14" viewBox="0 0 16 16" fill="none" stroke="currentColor" aria-hidden="true">
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M3.5 10.5h-1v-8h8v1" />
    </svg>
  );
}

export interface ActionProps {
  readonly onClick: () => void;
  readonly children: ComponentChildren;
  /** What the key must be allowed to do. */
  readonly scope?: Scope;
  /** Another reason why it is off, as a sentence. */
  readonly off?: string | undefined;
  readonly kind?: "primary" | "danger" | "plain";
  readonly title?: string;
}

/** A button that, when it is off, says why: as its description and as a tooltip. */
export function Action({ onClick, children, scope, off, kind = "plain", title }: ActionProps) {
  const reason = (scope === undefined ? undefined : whyNot(scope)) ?? off;
  return (
    <button
      type="button"
      class={`action ${kind}`}
      aria-disabled={reason !== undefined}
      title={reason ?? title}
      onClick={() => {
        if (reason === undefined) onClick();
      }}
    >
      {children}
      {reason !== undefined && <span class="visually-hidden"> ({reason})</span>}
    </button>
  );
}
