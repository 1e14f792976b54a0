import { useEffect, useState } from "preact/hooks";
import { EmptyState, ErrorState } from "../../components/states.tsx";
import type { ViewProps } from "../../components/view.ts";
import { listAll } from "../../lib/api.ts";
import { shortId } from "../../lib/format.ts";
import { useLoad } from "../../lib/load.ts";
import { Capabilities } from "./capabilities.tsx";
import { Composer } from "./composer.tsx";
import { OptionsPanel } from "./options.tsx";
import { type Column, columns, newColumn, takeBack } from "./state.ts";
import { Turns } from "./turns.tsx";

interface Model {
  readonly id: string;
  readonly kind?: string;
}

export default function Playground({ query }: ViewProps) {
  const models = useLoad((signal) => listModels(signal), []);
  const [showsOptions, setShowsOptions] = useState(() => matchMedia("(min-width: 1000px)").matches);
  const names = models.data ?? [];
  useEffect(() => {
    const [first] = columns.value;
    if (first === undefined) return;
    if (query.from !== undefined && query.from !== first.base.value) {
      takeBack(first);
      first.base.value = query.from;
    }
    if (query.model !== undefined) first.model.value = query.model;
  }, [query.from, query.model]);
  useEffect(() => {
    const fallback = names.includes("auto") ? "auto" : names[0];
    for (const { model } of columns.value)
      if (model.value === "" && fallback !== undefined) model.value = fallback;
  }, [models.data, columns.value.length]);
  return (
    <div class="playground">
      <header class="head">
        <h1>Playground</h1>
        <button type="button" onClick={() => setColumns(columns.value.length === 1)}>
          {columns.value.length === 1 ? "Two models" : "One model"}
        </button>
        <button type="button" aria-expanded={showsOptions} onClick={() => setShowsOptions(!showsOptions)}>
          Parameters
        </button>
        <button type="button" onClick={clear}>
          New conversation
        </button>
      </header>
      {models.error !== undefined && <ErrorState error={models.error} retry={models.reload} />}
      <div class={`playground-body${showsOptions ? " with-options" : ""}`}>
        <div class="playground-main">
          <div class="columns">
            {columns.value.map((column) => (
              <ColumnView key={column.id} column={column} models={names} />
            ))}
          </div>
          <Composer />
        </div>
        {showsOptions && <OptionsPanel />}
      </div>
    </div>
  );
}

async function listModels(signal: AbortSignal): Promise<string[]> {
  signal.throwIfAborted();
  return (await listAll<Model>("/v1/models")).filter(({ kind }) => kind !== "embedding").map(({ id }) => id);
}

function setColumns(two: boolean): void {
  const [first = newColumn()] = columns.value;
  columns.value = two ? [first, newColumn(first.model.value)] : [first];
}

function clear(): void {
  for (const column of columns.value) {
    takeBack(column);
    column.base.value = undefined;
  }
  history.replaceState(null, "", "#/playground");
}

function ColumnView({ column, models }: { column: Column; models: readonly string[] }) {
  const base = column.base.value;
  return (
    <div class="column">
      <div class="row column-head">
        <select
          class="grow"
          aria-label="Model"
          value={column.model.value}
          onChange={(event) => {
            column.model.value = event.currentTarget.value;
          }}
        >
          {column.model.value !== "" && !models.includes(column.model.value) && (
            <option>{column.model.value}</option>
          )}
          {models.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        {column.model.value !== "" && <Capabilities model={column.model.value} />}
      </div>
      {base !== undefined && (
        <p class="muted">
          Continues <a href={`#/responses/${base}`}>{shortId(base)}</a>
        </p>
      )}
      {column.turns.value.length === 0 ? (
        <EmptyState title="Ask something">
          Everything you send is a response that you can inspect, continue, fork and replay.
        </EmptyState>
      ) : (
        <Turns column={column} />
      )}
    </div>
  );
}
