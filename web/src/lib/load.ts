import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Loaded<T> {
  readonly data?: T;
  readonly error?: unknown;
  readonly loading: boolean;
  /** True if the data is that of other filters than the current ones. */
  readonly stale: boolean;
}

/**
 * Loads when mounted, when the object or a filter changes and on `reload`. The data of another object is dropped, that
 * of other filters stays until the new one is there. An answer that comes too late is dropped. `refresh` does nothing
 * while a request is on its way: it is for polling, which would never let a slow server answer.
 */
export function useLoad<T>(
  load: (signal: AbortSignal) => Promise<T>,
  object: readonly unknown[],
  filters: readonly unknown[] = [],
) {
  const [state, setState] = useState<Loaded<T>>({ loading: true, stale: false });
  const shown = useRef(object);
  const current = useRef<AbortController | undefined>(undefined);
  const reload = useCallback(() => {
    current.current?.abort();
    const controller = new AbortController();
    current.current = controller;
    const ended = () => {
      if (current.current === controller) current.current = undefined;
    };
    setState(({ error: _, ...kept }) => ({ ...kept, loading: true }));
    load(controller.signal).then(
      (data) => {
        ended();
        if (!controller.signal.aborted) setState({ data, loading: false, stale: false });
      },
      (error: unknown) => {
        ended();
        if (!controller.signal.aborted) setState((kept) => ({ ...kept, error, loading: false }));
      },
    );
  }, [...object, ...filters]);
  const refresh = useCallback(() => {
    if (current.current === undefined) reload();
  }, [reload]);
  useEffect(() => {
    const same = object.every((part, index) => part === shown.current[index]);
    shown.current = object;
    setState((kept) =>
      same ? { ...kept, stale: kept.data !== undefined } : { loading: true, stale: false },
    );
    reload();
    return () => current.current?.abort();
  }, [reload]);
  return { ...state, reload, refresh };
}

export interface LoadedPages<T> {
  readonly found: readonly T[];
  /** False while more pages are expected. */
  readonly complete: boolean;
  readonly error?: unknown;
}

/** Loads the pages of an object's list when mounted and when the object changes; what has arrived can be shown. */
export function usePages<T>(
  load: (signal: AbortSignal) => AsyncIterable<readonly T[]>,
  object: readonly unknown[],
): LoadedPages<T> {
  const [state, setState] = useState<LoadedPages<T>>({ found: [], complete: false });
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const read = async () => {
      let found: readonly T[] = [];
      setState({ found, complete: false });
      for await (const page of load(signal)) {
        if (signal.aborted) return;
        found = [...found, ...page];
        setState({ found, complete: false });
      }
      setState({ found, complete: true });
    };
    read().catch((error: unknown) => {
      if (!signal.aborted) setState(({ found }) => ({ found, complete: true, error }));
    });
    return () => controller.abort();
  }, object);
  return state;
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
