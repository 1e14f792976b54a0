import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Heights } from "../lib/heights.ts";

const MARGIN_PX = 800;

export interface VirtualListProps {
  readonly count: number;
  /** In pixels: what a row takes that was not yet shown. */
  readonly estimate: number;
  readonly row: (index: number) => ComponentChildren;
  readonly label: string;
  /** Scrolled into view when it changes. */
  readonly focus?: number | undefined;
  readonly height?: string;
}

/** A list of any length, of which only the visible rows are in the document. Rows may differ in height. */
export function VirtualList({ count, estimate, row, label, focus, height = "70vh" }: VirtualListProps) {
  const box = useRef<HTMLDivElement>(null);
  const heights = useRef(new Heights(count, estimate));
  const [view, setView] = useState({ top: 0, height: 600 });
  const [, redraw] = useState(0);
  heights.current.resize(count);
  const first = heights.current.indexAt(view.top - MARGIN_PX);
  const last = Math.min(count - 1, heights.current.indexAt(view.top + view.height + MARGIN_PX));
  const read = () => {
    const element = box.current;
    if (element !== null) setView({ top: element.scrollTop, height: element.clientHeight });
  };
  useEffect(read, []);
  useLayoutEffect(() => {
    let changed = false;
    for (const element of box.current?.querySelectorAll<HTMLElement>(":scope > ul > [data-index]") ?? []) {
      changed = heights.current.set(Number(element.dataset.index), element.offsetHeight) || changed;
    }
    if (changed) redraw((times) => times + 1);
  });
  useEffect(() => {
    if (focus === undefined || box.current === null) return;
    const { scrollTop, clientHeight } = box.current;
    const top = heights.current.topOf(focus);
    const end = heights.current.topOf(focus + 1);
    if (top < scrollTop) box.current.scrollTop = top;
    else if (end > scrollTop + clientHeight) box.current.scrollTop = end - clientHeight;
  }, [focus]);
  const rows = [];
  for (let index = first; index <= last; index += 1) {
    rows.push(
      <li key={index} data-index={index} aria-setsize={count} aria-posinset={index + 1}>
        {row(index)}
      </li>,
    );
  }
  return (
    <section
      ref={box}
      class="virtual"
      style={{ maxHeight: height }}
      onScroll={read}
      aria-label={label}
      tabIndex={0}
    >
      <div style={{ height: heights.current.topOf(first) }} />
      <ul>{rows}</ul>
      <div style={{ height: heights.current.total - heights.current.topOf(last + 1) }} />
    </section>
  );
}
