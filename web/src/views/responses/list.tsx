import { useEffect, useRef, useState } from "preact/hooks";
import { StatusBadge } from "../../components/badge.tsx";
import { Text } from "../../components/plain-text.tsx";
import { EmptyState, ErrorState, Loading } from "../../components/states.tsx";
import { type Page, request } from "../../lib/api.ts";
import { count, counted, duration, fullTime, idTail, when } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keyboard.ts";
import { useLoad, usePolling } from "../../lib/load.ts";
import { withoutMarks } from "../../lib/previews.ts";
import { go } from "../../lib/router.ts";
import type { ResponseSummary } from "../../lib/types.ts";
import { FilterBar } from "./filter-bar.tsx";
import { type Filters, queryOf } from "./filters.ts";

const REFRESH_SECONDS = 3;

function load(filters: Filters, signal: AbortSignal): Promise<Page<ResponseSummary>> {
  return request<Page<ResponseSummary>>("/v1/responses", { query: queryOf(filters), signal });
}

export function List({ query }: { query: Filters }) {
  const { after } = query;
  const wanted = JSON.stringify(query);
  const { data, error, stale, reload, refresh } = useLoad((signal) => load(query, signal), [], [wanted]);
  const [selected, setSelected] = useState(0);
  usePolling(refresh, REFRESH_SECONDS, after === undefined);
  const rows = data?.data ?? [];
  const move = (by: number) => setSelected((at) => Math.max(0, Math.min(rows.length - 1, at + by)));
  useShortcuts([
    { keys: "j", label: "Next row", run: () => move(1) },
    { keys: "k", label: "Previous row", run: () => move(-1) },
    { keys: "Enter", label: "Open the row", run: () => open(rows[selected]) },
  ]);
  const filtered = Object.keys(query).length > 0;
  return (
    <>
      <header class="head">
        <h1>Responses</h1>
        {after === undefined && <span class="muted">live</span>}
      </header>
      <FilterBar query={query} rows={rows} />
      {error !== undefined && <ErrorState error={error} retry={reload} />}
      {data === undefined && error === undefined && <Loading />}
      <div aria-busy={stale}>
        {data !== undefined && rows.length === 0 && <Nothing filtered={filtered} />}
        {rows.length > 0 && <Rows rows={rows} selected={selected} />}
      </div>
      <div class="row end pager">
        {after !== undefined && (
          <button type="button" onClick={() => history.back()}>
            Newer
          </button>
        )}
        {data?.has_more === true && (
          <button type="button" onClick={() => go(["responses"], { ...query, after: rows.at(-1)?.id })}>
            Older
          </button>
        )}
      </div>
    </>
  );
}

function open(row: ResponseSummary | undefined): void {
  if (row !== undefined) go(["responses", row.id]);
}

function Nothing({ filtered }: { filtered: boolean }) {
  return filtered ? (
    <EmptyState title="No response matches">
      <a href="#/responses">Clear the filters</a>
    </EmptyState>
  ) : (
    <EmptyState title="No responses yet">
      Send one in the <a href="#/playground">playground</a>, or point a client at{" "}
      <code>{location.origin}/v1</code>.
    </EmptyState>
  );
}

function Rows({ rows, selected }: { rows: readonly ResponseSummary[]; selected: number }) {
  const current = useRef<HTMLTableRowElement>(null);
  useEffect(() => current.current?.scrollIntoView({ block: "nearest" }), [selected]);
  return (
    <div class="scroll-x">
      <table class="responses">
        <thead>
          <tr>
            <th>Status</th>
            <th>Time</th>
            <th>Input and output</th>
            <th>Model</th>
            <th>Tools</th>
            <th class="number">In</th>
            <th class="number">Out</th>
            <th class="number">First</th>
            <th class="number">Total</th>
            <th>Id</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr
              key={row.id}
              ref={index === selected ? current : null}
              class={index === selected ? "selected" : ""}
              onClick={() => open(row)}
            >
              <Cells row={row} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cells({ row }: { row: ResponseSummary }) {
  return (
    <>
      <td>
        <StatusBadge status={row.status} />
      </td>
      <td class="nowrap" title={fullTime(row.created_at)}>
        {when(row.created_at)}
      </td>
      <td class="preview">
        <div>
          <Text text={row.input_preview ?? ""} />
        </div>
        <div class="muted">
          <Text text={row.error?.message ?? withoutMarks(row.output_preview ?? "")} />
        </div>
      </td>
      <td class="nowrap">
        <Text text={row.model} />
      </td>
      <td class="tools mono">
        {row.tools.map((tool) => (
          <div key={tool} title={tool}>
            <Text text={tool} />
          </div>
        ))}
      </td>
      <td class="number">{count(row.usage?.input_tokens)}</td>
      <td class="number">{count(row.usage?.output_tokens)}</td>
      <td class="number">{duration(row.first_token_ms)}</td>
      <td class="number">{duration(row.total_ms)}</td>
      <td class="mono nowrap">
        <a href={`#/responses/${row.id}`} title={row.id} onClick={(event) => event.stopPropagation()}>
          {idTail(row.id)}
        </a>
        {row.forks > 0 && (
          <div>
            <span class="badge">{counted(row.forks + 1, "branch", "branches")}</span>
          </div>
        )}
        {row.trace && (
          <div>
            <span class="badge">trace</span>
          </div>
        )}
      </td>
    </>
  );
}
