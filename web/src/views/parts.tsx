import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { CopyButton } from "../components/buttons.tsx";
import { LongText as CutText } from "../components/plain-text.tsx";
import { ErrorState } from "../components/states.tsx";
import { segments } from "../lib/controls.ts";
import { type Scope, whyNot } from "../lib/session.ts";

/** Text of models and clients in one line or in an attribute: characters that could disguise it are named. */
export function visible(text: string): string {
  return segments(text)
    .map((segment) => (segment.control ? `[${segment.text}]` : segment.text))
    .join("");
}

/** Text of any length, in a block of its own. */
export function LongText({ text, mono = false }: { text: string; mono?: boolean }) {
  return (
    <div class={mono ? "long-text mono" : "long-text"}>
      <CutText text={text} />
    </div>
  );
}

export function Head({
  title,
  about,
  children,
}: {
  title: string;
  about?: string;
  children?: ComponentChildren;
}) {
  return (
    <header class="head">
      <div class="grow">
        <h1>{title}</h1>
        {about !== undefined && <p class="muted">{about}</p>}
      </div>
      <div class="row">{children}</div>
    </header>
  );
}

interface Action {
  readonly label: string;
  readonly onClick: () => unknown;
  readonly scope?: Scope;
  /** Why it cannot be used now. */
  readonly off?: string | undefined;
  readonly kind?: "primary" | "danger" | "plain";
  /** Says more than the label where several buttons have the same. */
  readonly name?: string;
}

/** A button. If it cannot be used it stays reachable and says why; if its action fails it says that. */
export function Act({ label, onClick, scope, off, kind = "plain", name }: Action) {
  const id = useId();
  const busy = useSignal(false);
  const failure = useSignal<unknown>(undefined);
  const reason = (scope === undefined ? undefined : whyNot(scope)) ?? off;
  const click = async () => {
    if (reason !== undefined || busy.value) return;
    busy.value = true;
    failure.value = undefined;
    try {
      await onClick();
    } catch (cause) {
      failure.value = cause;
    } finally {
      busy.value = false;
    }
  };
  return (
    <>
      <button
        type="button"
        class={`action ${kind}`}
        aria-disabled={reason !== undefined || busy.value}
        aria-describedby={reason === undefined ? undefined : id}
        aria-label={name}
        title={reason}
        onClick={click}
      >
        {label}
        {reason !== undefined && (
          <span id={id} class="visually-hidden">
            {" "}
            ({reason})
          </span>
        )}
      </button>
      <Failure error={failure.value} />
    </>
  );
}

/** What went wrong, if something did, and what to do. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  if (error === undefined) return null;
  return retry === undefined ? <ErrorState error={error} /> : <ErrorState error={error} retry={retry} />;
}

const TONES: Readonly<Record<string, string>> = {
  completed: "good",
  ok: "good",
  passed: "good",
  closed: "good",
  native: "good",
  active: "good",
  processed: "good",
  in_progress: "busy",
  queued: "busy",
  running: "busy",
  trial: "warn",
  waiting: "warn",
  rejected: "warn",
  emulated: "warn",
  incomplete: "warn",
  interrupted: "warn",
  expired: "warn",
  handed: "busy",
  failed: "bad",
  error: "bad",
  timeout: "bad",
  open: "bad",
  revoked: "bad",
};

export function Badge({ status }: { status: string }) {
  return <span class={`badge ${TONES[status] ?? ""}`}>{status.replaceAll("_", " ")}</span>;
}

const SHORT_ID_CHARS = 20;
const SHORT_ID_TAIL = 8;

/** `resp_01a1f…2add490d`: ids begin with their time, so that the end tells them apart. */
function shortened(id: string): string {
  if (id.length <= SHORT_ID_CHARS) return id;
  return `${id.slice(0, id.search(/[_-]/) + 4)}…${id.slice(-SHORT_ID_TAIL)}`;
}

export function Id({ value, href, whole = false }: { value: string; href?: string; whole?: boolean }) {
  if (href !== undefined) {
    return (
      <a class="id" href={href} title={value}>
        {shortened(value)}
      </a>
    );
  }
  return (
    <span class="id-place">
      <code class={whole ? "id whole" : "id"} title={value}>
        {whole ? value : shortened(value)}
      </code>
      <CopyButton text={value} label={`Copy ${value}`} />
    </span>
  );
}

/** A table that scrolls sideways by itself, so that the page does not. */
export function Scrolled({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <section class="scroll-x" aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}
