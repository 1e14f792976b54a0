import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { ItemView } from "../../components/item.tsx";
import { EmptyState, ErrorState, Loading } from "../../components/states.tsx";
import { VirtualList } from "../../components/virtual-list.tsx";
import { Waterfall } from "../../components/waterfall.tsx";
import { ApiError, pagesOf } from "../../lib/api.ts";
import { countEarlier } from "../../lib/earlier.ts";
import { count, counted } from "../../lib/format.ts";
import { usePages } from "../../lib/load.ts";
import type { Trace } from "../../lib/trace.ts";
import type { Item, ResponseObject } from "../../lib/types.ts";

/** Up to here all items are in the document, so that the browser's own search finds them. */
const MAX_PLAIN_ITEMS = 100;
const ITEM_ESTIMATE_PX = 90;
const MAX_INPUT_ITEMS = 100_000;
const LOADING = "Loading the input";

export function Items({
  response,
  trace,
}: {
  response: ResponseObject;
  trace: Trace | ApiError | undefined;
}) {
  const [focus, setFocus] = useState<number>();
  const path = `/v1/responses/${response.id}/input_items`;
  const {
    found: input,
    complete,
    error,
  } = usePages(
    (signal) =>
      pagesOf<Item & { id: string }>(path, { query: { order: "asc" }, limit: MAX_INPUT_ITEMS, signal }),
    [path],
  );
  const [showsEarlier, setShowsEarlier] = useState(false);
  const continues = response.previous_response_id != null || response.conversation != null;
  // Until all of it is there, everything may be of earlier turns.
  const earlier = complete || !continues ? countEarlier(input) : input.length;
  const hidden = showsEarlier ? 0 : earlier;
  const all: readonly Item[] = [...input, ...response.output];
  const items = all.slice(hidden);
  const inputs = input.length - hidden;
  const pick = (itemId: string) => {
    const index = items.findIndex(({ id }) => id === itemId);
    if (index !== -1) setFocus(index);
    document.getElementById(itemId)?.scrollIntoView({ block: "center" });
  };
  const entry = (index: number) => <Entry items={items} all={all} index={index} inputs={inputs} />;
  return (
    <>
      <Clock trace={trace} onPick={pick} />
      {error !== undefined && <ErrorState error={error} />}
      {!complete && (
        <Loading what={input.length === 0 ? LOADING : `${LOADING}: ${count(input.length)} items`} />
      )}
      {input.length >= MAX_INPUT_ITEMS && (
        <p class="notice">Only the first {count(MAX_INPUT_ITEMS)} items of the input are shown.</p>
      )}
      {all.length === 0 && complete && <EmptyState title="No items" />}
      {earlier > 0 && (
        <button
          type="button"
          class="link earlier"
          aria-expanded={showsEarlier}
          onClick={() => setShowsEarlier(!showsEarlier)}
        >
          <span aria-hidden="true">{showsEarlier ? "▾" : "▸"}</span> Earlier turns: {counted(earlier, "item")}
        </button>
      )}
      {items.length > MAX_PLAIN_ITEMS ? (
        <VirtualList
          count={items.length}
          estimate={ITEM_ESTIMATE_PX}
          label={`${items.length} items`}
          focus={focus}
          row={entry}
        />
      ) : (
        items.map((item, index) => <Fragment key={item.id ?? index}>{entry(index)}</Fragment>)
      )}
    </>
  );
}

/** Where the time went. Without a trace nobody has measured it, which is said, with what would measure it. */
function Clock({ trace, onPick }: { trace: Trace | ApiError | undefined; onPick: (itemId: string) => void }) {
  if (trace === undefined) return null;
  if (trace instanceof ApiError) {
    return (
      <p class="muted">
        No timeline: no trace was recorded. A request records one with the header{" "}
        <code>antiphon-trace: record</code>.
      </p>
    );
  }
  return trace.clock.length === 0 ? null : <Waterfall spans={trace.clock} onPick={onPick} />;
}

interface EntryProps {
  readonly items: readonly Item[];
  /** With those of earlier turns, which may have the passages that this one cites. */
  readonly all: readonly Item[];
  readonly index: number;
  readonly inputs: number;
}

function Entry({ items, all, index, inputs }: EntryProps) {
  const item = items[index];
  if (item === undefined) return null;
  return (
    <div id={item.id} class="entry">
      {index === 0 && inputs > 0 && <h2>Input</h2>}
      {index === inputs && <h2>Output</h2>}
      <ItemView item={item} siblings={all} />
    </div>
  );
}
