import { duration } from "../lib/format.ts";
import type { ClockSpan } from "../lib/trace.ts";
import { Text } from "./plain-text.tsx";

const MIN_WIDTH_PERCENT = 0.4;

/** Where the time went: one bar per span, all on the same scale. */
export function Waterfall({
  spans,
  onPick,
}: {
  spans: readonly ClockSpan[];
  onPick?: (itemId: string) => void;
}) {
  const total = Math.max(1, ...spans.map(({ start_ms, end_ms }) => end_ms ?? start_ms));
  return (
    <ol class="waterfall" aria-label={`Timeline, ${duration(total)} in all`}>
      {spans.map((span, index) => {
        const width = (span.end_ms ?? total) - span.start_ms;
        const bar = {
          marginLeft: `${(span.start_ms / total) * 100}%`,
          width: `${Math.max(MIN_WIDTH_PERCENT, (width / total) * 100)}%`,
        };
        const label = [span.name.replaceAll("_", " "), span.label].filter(Boolean).join(" · ");
        return (
          <li key={index} title={`${label}: from ${duration(span.start_ms)}, ${duration(width)}`}>
            {span.item_id != null && onPick !== undefined ? (
              <button type="button" class="link waterfall-label" onClick={() => onPick(span.item_id ?? "")}>
                <Text text={label} />
              </button>
            ) : (
              <span class="waterfall-label">
                <Text text={label} />
              </span>
            )}
            <span class="waterfall-lane">
              <span class={`waterfall-bar ${span.name}`} style={bar} />
            </span>
            <span class="number">{duration(width)}</span>
          </li>
        );
      })}
    </ol>
  );
}
