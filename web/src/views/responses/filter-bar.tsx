import { useEffect, useId, useRef } from "preact/hooks";
import { listAll } from "../../lib/api.ts";
import { useLoad } from "../../lib/load.ts";
import { setQuery } from "../../lib/router.ts";
import { session, whyNot } from "../../lib/session.ts";
import type { ResponseSummary } from "../../lib/types.ts";
import { DATES, type Filters, knownModels, knownTools } from "./filters.ts";

const STATUSES = ["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"];

interface Key {
  readonly id: string;
  readonly name: string;
  readonly tenant: string;
}

interface Known {
  readonly models: readonly string[];
  readonly keys: readonly Key[];
}

/** What can be chosen. The keys of the tenant are known to administrators only. */
async function loadKnown(signal: AbortSignal): Promise<Known> {
  const [models, keys] = await Promise.all([
    listAll<{ id: string; kind?: string }>("/v1/models", { signal }),
    whyNot("admin") === undefined ? listAll<Key>("/v1/admin/keys", { signal }) : [],
  ]);
  return {
    models: models.filter(({ kind }) => kind !== "embedding").map(({ id }) => id),
    keys: keys.filter(({ tenant }) => tenant === session.value?.tenant),
  };
}

function set(name: string, value: string): void {
  setQuery({ [name]: value, after: undefined });
}

export function FilterBar({ query, rows }: { query: Filters; rows: readonly ResponseSummary[] }) {
  const { data: known = { models: [], keys: [] } } = useLoad(loadKnown, []);
  return (
    <search class="filters" aria-label="Filters">
      <TextFilter name="text" label="Text or id" query={query} />
      <select
        aria-label="Status"
        value={query.status ?? ""}
        onChange={(event) => set("status", event.currentTarget.value)}
      >
        <option value="">any status</option>
        {STATUSES.map((status) => (
          <option key={status} value={status}>
            {status.replaceAll("_", " ")}
          </option>
        ))}
      </select>
      <TextFilter name="model" label="Model" query={query} known={knownModels(known.models, rows)} />
      <TextFilter name="tool" label="Tool" query={query} known={knownTools(rows)} />
      <KeyFilter query={query} keys={known.keys} />
      <select
        aria-label="Time"
        value={query.since ?? ""}
        onChange={(event) => set("since", event.currentTarget.value)}
      >
        <option value="">any time</option>
        <option value="1h">last hour</option>
        <option value="1d">last day</option>
        <option value="7d">last 7 days</option>
        <option value={DATES}>between dates</option>
      </select>
      {query.since === DATES && (
        <>
          <DateFilter name="from" label="From" query={query} />
          <DateFilter name="to" label="To" query={query} />
        </>
      )}
    </search>
  );
}

function DateFilter({ name, label, query }: { name: string; label: string; query: Filters }) {
  return (
    <label class="inline-label">
      {label}
      <input
        type="date"
        class="grow"
        value={query[name] ?? ""}
        onChange={(event) => set(name, event.currentTarget.value)}
      />
    </label>
  );
}

/** Keys by their names, if they are known here. */
function KeyFilter({ query, keys }: { query: Filters; keys: readonly Key[] }) {
  if (keys.length === 0) return <TextFilter name="key_id" label="Key id" query={query} />;
  const { key_id: chosen = "" } = query;
  return (
    <select aria-label="Key" value={chosen} onChange={(event) => set("key_id", event.currentTarget.value)}>
      <option value="">any key</option>
      {chosen !== "" && !keys.some(({ id }) => id === chosen) && <option value={chosen}>{chosen}</option>}
      {keys.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  );
}

const TYPING_MS = 300;

interface TextFilterProps {
  readonly name: string;
  readonly label: string;
  readonly query: Filters;
  /** Suggested while the person types. */
  readonly known?: readonly string[];
}

function TextFilter({ name, label, query, known = [] }: TextFilterProps) {
  const listId = useId();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const field = useRef<HTMLInputElement>(null);
  const wanted = query[name] ?? "";
  const typed = useRef(wanted);
  useEffect(() => () => clearTimeout(timer.current), []);
  // A filter that was cleared by a link, or by the browser's history, leaves no text behind.
  useEffect(() => {
    if (field.current !== null && wanted !== typed.current) field.current.value = wanted;
    typed.current = wanted;
  }, [wanted]);
  return (
    <>
      <input
        ref={field}
        list={known.length > 0 ? listId : undefined}
        type="search"
        aria-label={label}
        placeholder={label}
        defaultValue={wanted}
        onInput={(event) => {
          const { value } = event.currentTarget;
          clearTimeout(timer.current);
          timer.current = setTimeout(() => {
            typed.current = value.trim();
            setQuery({ [name]: typed.current, after: undefined });
          }, TYPING_MS);
        }}
      />
      {known.length > 0 && (
        <datalist id={listId}>
          {known.map((value) => (
            <option key={value} value={value} />
          ))}
        </datalist>
      )}
    </>
  );
}
