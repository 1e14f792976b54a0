import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { JsonTree } from "../../components/json.tsx";
import { EmptyState, ErrorState, Loading } from "../../components/states.tsx";
import { VirtualList } from "../../components/virtual-list.tsx";
import { ApiError, request } from "../../lib/api.ts";
import { EventLog } from "../../lib/event-log.ts";
import { ABSENT, duration } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keyboard.ts";
import { useLoad, usePolling } from "../../lib/load.ts";
import type { StoredEvent } from "../../lib/trace.ts";

const PAGE_SIZE = 1000;
const ROW_PX = 24;
const REFRESH_SECONDS = 2;

function openLog(id: string): EventLog {
  const path = `/v1/responses/${encodeURIComponent(id)}/events`;
  return new EventLog((after, signal) => request(path, { query: { limit: PAGE_SIZE, after }, signal }));
}

/** Every event with its number. `j` and `k` step through them. */
export function Events({ id, running }: { id: string; running: boolean }) {
  const log = useMemo(() => openLog(id), [id]);
  const { data, error, loading, reload } = useLoad((signal) => log.readOn(signal), [log]);
  const [at, setAt] = useState(0);
  const refresh = () => {
    if (!loading) reload();
  };
  usePolling(refresh, REFRESH_SECONDS, running);
  const wasRunning = useRef(running);
  useEffect(() => {
    if (wasRunning.current && !running) reload(); // the last events
    wasRunning.current = running;
  }, [running]);
  const events = data ?? [];
  const step = (by: number) => setAt((index) => Math.max(0, Math.min(events.length - 1, index + by)));
  useShortcuts([
    { keys: "j", label: "Next event", run: () => step(1) },
    { keys: "k", label: "Previous event", run: () => step(-1) },
  ]);
  if (error instanceof ApiError && error.status === 404) {
    return <EmptyState title="No events were recorded">{error.message}</EmptyState>;
  }
  if (data === undefined)
    return error === undefined ? <Loading /> : <ErrorState error={error} retry={reload} />;
  const shown = events[at];
  return (
    <div class="split">
      <div>
        <div class="row">
          <button type="button" disabled={at === 0} onClick={() => step(-1)}>
            Previous
          </button>
          <button type="button" disabled={at >= events.length - 1} onClick={() => step(1)}>
            Next
          </button>
          <span class="muted">
            {Math.min(at + 1, events.length)} of {events.length}
          </span>
        </div>
        <VirtualList
          count={events.length}
          estimate={ROW_PX}
          label="Events"
          focus={at}
          row={(index) => (
            <EventRow event={events[index]} current={index === at} onPick={() => setAt(index)} />
          )}
        />
      </div>
      {shown !== undefined && <JsonTree key={shown.sequence_number} value={shown.event} depth={4} />}
    </div>
  );
}

function EventRow({
  event,
  current,
  onPick,
}: {
  event: StoredEvent | undefined;
  current: boolean;
  onPick: () => void;
}) {
  if (event === undefined) return null;
  return (
    <button type="button" class="event-row" aria-current={current ? "true" : undefined} onClick={onPick}>
      <span>{event.sequence_number}</span>
      <span class="muted">{event.at_ms === null ? ABSENT : duration(event.at_ms)}</span>
      <span>{event.event.type}</span>
    </button>
  );
}
