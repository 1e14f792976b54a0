import type { Query } from "../../lib/api.ts";
import type { ResponseSummary } from "../../lib/types.ts";

/** What the address says: names and values as they were chosen. */
export type Filters = Readonly<Record<string, string>>;

const PAGE_SIZE = 50;
const HOUR_SECONDS = 3600;
const SINCE: Readonly<Record<string, number>> = {
  "1h": HOUR_SECONDS,
  "1d": 24 * HOUR_SECONDS,
  "7d": 7 * 24 * HOUR_SECONDS,
};
/** The choice of time that shows the fields for dates. */
export const DATES = "dates";
/** The kinds of tools that `tool` finds; functions are found by their names. */
const TOOL_KINDS = ["web_search", "file_search", "code_interpreter", "image_generation", "mcp"];

export function queryOf(filters: Filters, now: number = Date.now()): Query {
  const { status, model, tool, key_id, text, conversation, after, since = "", from, to } = filters;
  const seconds = SINCE[since];
  const dated = since === DATES;
  return {
    limit: PAGE_SIZE,
    status,
    model,
    tool,
    key_id,
    text,
    conversation,
    after,
    // In whole minutes, so that polling asks the same question.
    created_after:
      seconds === undefined ? dayStart(dated ? from : undefined) : Math.floor(now / 60_000) * 60 - seconds,
    created_before: dayEnd(dated ? to : undefined),
  };
}

/** The first second of a date, `2026-11-19`, where the person is. */
function dayStart(date: string | undefined, daysLater = 0): number | undefined {
  const [, year, month, day] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(date ?? "") ?? [];
  if (day === undefined) return undefined;
  return new Date(Number(year), Number(month) - 1, Number(day) + daysLater).getTime() / 1000;
}

/** The last second of a date. */
function dayEnd(date: string | undefined): number | undefined {
  const next = dayStart(date, 1);
  return next === undefined ? undefined : next - 1;
}

/** Names to choose from: what the server has now, and what the shown responses used. */
export function knownModels(served: readonly string[], rows: readonly ResponseSummary[]): string[] {
  return sorted([...served, ...rows.map(({ model }) => model)]);
}

export function knownTools(rows: readonly ResponseSummary[]): string[] {
  return sorted([...TOOL_KINDS, ...rows.flatMap(({ tools }) => tools)]);
}

function sorted(names: readonly string[]): string[] {
  return [...new Set(names)].sort();
}
