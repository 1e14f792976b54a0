import { useEffect } from "preact/hooks";

export interface Shortcut {
  /** One key, or two pressed one after the other: `?`, `Escape`, `g r`. */
  readonly keys: string;
  readonly label: string;
  readonly run: () => void;
}

const SEQUENCE_MS = 1200;
const active: Shortcut[] = [];
let prefix = "";
let prefixAt = 0;

export function activeShortcuts(): readonly Shortcut[] {
  return active;
}

/** True where a letter is text and not a command. */
export function takesText(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

export function handleKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key !== "Escape" && takesText(event.target)) return;
  const pair = performance.now() - prefixAt < SEQUENCE_MS ? `${prefix} ${event.key}` : "";
  const match =
    active.findLast(({ keys }) => keys === pair) ?? active.findLast(({ keys }) => keys === event.key);
  prefix = match === undefined ? event.key : "";
  prefixAt = performance.now();
  if (match === undefined) return;
  if (
    event.key === "Enter" &&
    event.target instanceof HTMLElement &&
    event.target.closest("a,button,summary")
  )
    return;
  event.preventDefault();
  match.run();
}

/** The shortcuts apply while the component is mounted; a later one wins over an earlier one. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  useEffect(() => {
    active.push(...shortcuts);
    return () => {
      for (const shortcut of shortcuts) active.splice(active.indexOf(shortcut), 1);
    };
  });
}
