import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { declineSignIn, signOut } from "../lib/api.ts";
import { activeShortcuts, handleKey, useShortcuts } from "../lib/keyboard.ts";
import { go, place } from "../lib/router.ts";
import { session, sessionExpired } from "../lib/session.ts";
import { type Theme, theme } from "../lib/theme.ts";
import { VIEWS, type ViewEntry, viewNamed } from "../views.ts";
import { Dialog } from "./dialog.tsx";
import { JumpDialog } from "./jump.tsx";
import { SignInForm } from "./sign-in.tsx";
import { EmptyState, ErrorState, Loading } from "./states.tsx";
import type { ViewProps } from "./view.ts";

const NEXT_THEME: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const THEME_ICON: Record<Theme, string> = { system: "◐", light: "☀", dark: "☾" };

function Rail({ current, onJump, onHelp }: { current: string; onJump: () => void; onHelp: () => void }) {
  const rail = useRef<HTMLElement>(null);
  // In a narrow window the views are a row that scrolls: the current one is always in sight.
  useEffect(() => {
    rail.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [current]);
  return (
    <nav ref={rail} class="rail" aria-label="Views">
      <a class="brand" href="#/playground">
        Antiphon
      </a>
      <ul>
        {VIEWS.map(({ name, title, key }) => (
          <li key={name}>
            <a href={`#/${name}`} aria-current={name === current ? "page" : undefined} title={`g ${key}`}>
              {title}
            </a>
          </li>
        ))}
      </ul>
      <div class="rail-foot">
        <button
          type="button"
          class="icon"
          aria-label="Jump to an id"
          title="Jump to an id (/)"
          onClick={onJump}
        >
          ⌕
        </button>
        <button
          type="button"
          class="icon"
          aria-label={`Theme: ${theme.value}`}
          title={`Theme: ${theme.value}`}
          onClick={() => {
            theme.value = NEXT_THEME[theme.value];
          }}
        >
          {THEME_ICON[theme.value]}
        </button>
        <button
          type="button"
          class="icon"
          aria-label="Keyboard shortcuts"
          title="Keyboard shortcuts (?)"
          onClick={onHelp}
        >
          ?
        </button>
        <Account />
      </div>
    </nav>
  );
}

function Account() {
  const current = session.value;
  if (current === undefined || !current.needs_key) return null;
  const name = current.key_name ?? current.key_id;
  const who = `${name === null ? "a key of the settings" : `the key ${name}`}, tenant ${current.tenant}`;
  return (
    <button type="button" class="account" title={`Signed in with ${who}`} onClick={signOut}>
      Sign out{name === null ? "" : ` ${name}`}
    </button>
  );
}

function KeySheet({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl class="key-sheet">
        {activeShortcuts().map(({ keys, label }) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{label}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

/** A view, loaded when it is first opened. A fault in it leaves the rest of the page alive. */
function Stage({ entry, path, query }: { entry: ViewEntry } & ViewProps) {
  const [loaded, setLoaded] = useState<{ View: ComponentType<ViewProps> }>();
  const [error, reset] = useErrorBoundary();
  const [loadError, setLoadError] = useState<unknown>();
  useEffect(() => {
    entry.load().then(
      ({ default: View }) => setLoaded({ View }),
      () =>
        setLoadError(
          new Error("This view could not be loaded: the server was updated, or is away. Reload the page."),
        ),
    );
  }, [entry]);
  if (error !== undefined) return <ErrorState error={error} retry={reset} />;
  if (loadError !== undefined) return <ErrorState error={loadError} retry={() => location.reload()} />;
  return loaded === undefined ? <Loading /> : <loaded.View path={path} query={query} />;
}

export function Shell() {
  const [dialog, setDialog] = useState<"jump" | "keys">();
  const { path, query } = place.value;
  const [name = "playground", ...rest] = path;
  const entry = viewNamed(name);
  useEffect(() => {
    addEventListener("keydown", handleKey);
    return () => removeEventListener("keydown", handleKey);
  }, []);
  useEffect(() => {
    document.title = entry === undefined ? "Antiphon" : `${entry.title} · Antiphon`;
  }, [entry]);
  useShortcuts([
    { keys: "?", label: "Show this list", run: () => setDialog("keys") },
    { keys: "/", label: "Jump to an id", run: () => setDialog("jump") },
    ...VIEWS.map(({ name: view, title, key }) => ({ keys: `g ${key}`, label: title, run: () => go([view]) })),
  ]);
  const current = session.value;
  if (current === undefined) return <Loading />;
  if (current.needs_key && !current.signed_in) {
    return (
      <main class="door">
        <h1>Antiphon</h1>
        <SignInForm />
      </main>
    );
  }
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={skipToMain}>
        Skip to content
      </a>
      <Rail current={name} onJump={() => setDialog("jump")} onHelp={() => setDialog("keys")} />
      <main id="main" tabIndex={-1}>
        {entry === undefined ? (
          <EmptyState title={`There is no view “${name}”.`}>Pick one on the left.</EmptyState>
        ) : (
          <Stage key={name} entry={entry} path={rest} query={query} />
        )}
      </main>
      {dialog === "jump" && <JumpDialog onClose={() => setDialog(undefined)} />}
      {dialog === "keys" && <KeySheet onClose={() => setDialog(undefined)} />}
      {sessionExpired.value && (
        <Dialog title="Sign in again" onClose={declineSignIn}>
          <SignInForm expired />
        </Dialog>
      )}
    </div>
  );
}

/** The fragment is the router's, so the link moves the focus itself. */
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
