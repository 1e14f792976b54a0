const COUNT = new Intl.NumberFormat("en");
const DAY_TIME = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const DATE = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
/** What stands for a value that is not known. */
export const ABSENT = "–";

export function count(value: number | null | undefined): string {
  return value == null ? ABSENT : COUNT.format(value);
}

/** `1 file`, `2 files`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function duration(ms: number | null | undefined): string {
  if (ms == null) return ABSENT;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A time that is known in whole seconds. */
export function wholeSeconds(seconds: number): string {
  if (seconds < 1) return "< 1 s";
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
}

export function bytes(value: number | null | undefined): string {
  if (value == null) return ABSENT;
  if (value < 1000) return `${value} B`;
  if (value < 1_000_000) return `${(value / 1000).toFixed(1)} kB`;
  if (value < 1_000_000_000) return `${(value / 1_000_000).toFixed(1)} MB`;
  return `${(value / 1_000_000_000).toFixed(1)} GB`;
}

const BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** `32 MiB` for limits, which are powers of two. */
export function binaryBytes(value: number): string {
  let unit = 0;
  let size = value;
  for (; size >= 1024 && unit < BINARY_UNITS.length - 1; unit += 1) size /= 1024;
  return `${Number(size.toFixed(1))} ${BINARY_UNITS[unit]}`;
}

/** Time of day for today, with the date for any other day. */
export function when(seconds: number | null | undefined, now: Date = new Date()): string {
  if (seconds == null) return ABSENT;
  const date = new Date(seconds * 1000);
  const time = DAY_TIME.format(date);
  return date.toDateString() === now.toDateString() ? time : `${DATE.format(date)} ${time}`;
}

export function fullTime(seconds: number | null | undefined): string {
  return seconds == null ? ABSENT : FULL.format(new Date(seconds * 1000));
}

/** The end of an id, which tells it apart from others: ids begin with their time. */
export function idTail(id: string): string {
  return `…${id.slice(-6)}`;
}

/** The beginning and the end of an id, which tell it apart from others at a glance. */
export function shortId(id: string): string {
  return id.length <= 20 ? id : `${id.slice(0, 11)}…${id.slice(-5)}`;
}
