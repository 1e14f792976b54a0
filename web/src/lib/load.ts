import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export type Loaded<T> = { readonly data?: T; readonly error?: unknown; readonly loading: boolean };

/** Loads when mounted, when a dependency changes and on `reload`. An answer that comes too late is dropped. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, dependencies: readonly unknown[]) {
  const [state, setState] = useState<Loaded<T>>({ loading: true });
  const current = useRef<AbortController | undefined>(undefined);
  const reload = useCallback(() => {
    current.current?.abort();
    const controller = new AbortController();
    current.current = controller;
    setState(({ data }) => (data === undefined ? { loading: true } : { data, loading: true }));
    load(controller.signal).then(
      (data) => {
        if (!controller.signal.aborted) setState({ data, loading: false });
      },
      (error: unknown) => {
        if (controller.signal.aborted) return;
        setState(({ data }) =>
          data === undefined ? { error, loading: false } : { data, error, loading: false },
        );
      },
    );
  }, dependencies);
  useEffect(() => {
    setState({ loading: true });
    reload();
    return () => current.current?.abort();
  }, [reload]);
  return { ...state, reload };
}

/** Calls `tick` every `seconds` while the tab is visible, so that a page in the background costs nothing. */
export function usePolling(tick: () => void, seconds: number, active = true): void {
  const latest = useRef(tick);
  latest.current = tick;
  useEffect(() => {
    if (!active) return;
    const run = () => {
      if (document.visibilityState === "visible") latest.current();
    };
    const timer = setInterval(run, seconds * 1000);
    document.addEventListener("visibilitychange", run);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", run);
    };
  }, [seconds, active]);
}
