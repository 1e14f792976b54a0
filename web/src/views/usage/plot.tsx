import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { count, duration } from "../../lib/format.ts";
import { theme } from "../../lib/theme.ts";
import type { Plotted } from "./types.ts";

const HEIGHT_PX = 200;
const AXIS_WIDTH_PX = 64;
const TIMES_HEIGHT_PX = 32;
const DAY_SECONDS = 86_400;
/** Often equal to p99, which would cover it. */
const DASHED = "p95";
const DASH_PX = [6, 4];
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const HOUR = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4"];

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The day of midnight, and the time of any other moment. */
function moment(seconds: number): string {
  return (seconds % DAY_SECONDS === 0 ? DAY : HOUR).format(seconds * 1000);
}

/** Days have no hours between them. */
function stepsOf({ starts: [first = 0, second = first + DAY_SECONDS] }: Plotted): number[] {
  const step = second - first;
  return [1, 2, 3, 4, 6, 7, 12, 14, 24, 28].map((times) => times * step);
}

/** The dashed line comes last, so that one below it is seen between its dashes. */
function drawnOf({ lines }: Plotted) {
  const drawn = lines.map((line, index) => ({ ...line, index }));
  return [...drawn.filter(({ label }) => label !== DASHED), ...drawn.filter(({ label }) => label === DASHED)];
}

function options(plotted: Plotted, width: number, shown: (value: number) => string): uPlot.Options {
  const drawn = drawnOf(plotted);
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: HEIGHT_PX,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    cursor: { y: false },
    legend: { show: false },
    series: [
      {},
      ...drawn.map(({ label, index }) => ({
        label,
        stroke: colour(COLOURS[index] ?? "--ink"),
        width: 2,
        ...(label === DASHED ? { dash: DASH_PX } : {}),
        points: { show: plotted.starts.length < 40, size: 5 },
      })),
    ],
    axes: [
      {
        ...axis,
        size: TIMES_HEIGHT_PX,
        incrs: stepsOf(plotted),
        values: (_plot, times) => times.map(moment),
      },
      { ...axis, size: AXIS_WIDTH_PX, values: (_plot, values) => values.map(shown) },
    ],
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(1, (most ?? 0) * 1.05)] } },
  };
}

/** A picture of the table beside it, which has the same figures for those who do not see it. */
export function Plot({ plotted }: { plotted: Plotted }) {
  const place = useRef<HTMLDivElement>(null);
  const chosen = theme.value;
  useEffect(() => {
    const element = place.current;
    if (element === null || plotted.starts.length === 0) return undefined;
    const shown = plotted.unit === "ms" ? duration : count;
    const data = [
      [...plotted.starts],
      ...drawnOf(plotted).map(({ values }) => [...values]),
    ] as uPlot.AlignedData;
    const plot = new uPlot(options(plotted, element.clientWidth, shown), data, element);
    const watcher = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.destroy();
    };
  }, [plotted, chosen]);
  return (
    <figure class="plot">
      <div ref={place} aria-hidden="true" class="plot-place" />
      <figcaption class="row">
        {plotted.lines.map(({ label }, index) => (
          <span key={label} class={`line-key line-key-${index + 1}${label === DASHED ? " dashed" : ""}`}>
            {label}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}
