import { EmptyState } from "../../components/states.tsx";
import { count, duration } from "../../lib/format.ts";
import { Badge, Scrolled, visible } from "../parts.tsx";
import type { Upstream } from "./types.ts";

export function Upstreams({ upstreams }: { upstreams: readonly Upstream[] }) {
  if (upstreams.length === 0) {
    return (
      <EmptyState title="No upstreams">
        Start a model server on this machine, or name one: <code>antiphon serve --upstream URL</code>.
      </EmptyState>
    );
  }
  return (
    <Scrolled label="Upstreams">
      <table>
        <thead>
          <tr>
            <th>circuit</th>
            <th>upstream</th>
            <th>kind</th>
            <th>models</th>
            <th class="number">requests</th>
            <th class="number">failed</th>
            <th class="number">first token p50</th>
            <th class="number">p95</th>
            <th class="number">p99</th>
            <th class="number">at once</th>
          </tr>
        </thead>
        <tbody>
          {upstreams.map((each) => (
            <tr key={each.name}>
              <td>
                <Badge status={each.circuit} />
                {each.retry_in !== null && (
                  <div class="muted">tried again in {Math.ceil(each.retry_in)} s</div>
                )}
              </td>
              <td>
                <strong>{visible(each.name)}</strong>
                <div class="muted mono">{visible(each.base_url)}</div>
                {each.last_error != null && <div class="bad-text">{visible(each.last_error)}</div>}
              </td>
              <td>{each.kind}</td>
              <td>{each.models.length}</td>
              <td class="number">{count(each.requests)}</td>
              <td class="number">{failed(each)}</td>
              <td class="number">{duration(each.first_token_ms?.p50)}</td>
              <td class="number">{duration(each.first_token_ms?.p95)}</td>
              <td class="number">{duration(each.first_token_ms?.p99)}</td>
              <td class="number">{atOnce(each)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scrolled>
  );
}

function failed({ requests, failures }: Upstream): string {
  return requests === 0 ? "–" : `${count(failures)} (${((100 * failures) / requests).toFixed(1)} %)`;
}

function atOnce({ concurrency }: Upstream): string {
  if (concurrency === null) return "–";
  const { limit, in_use: used, waiting } = concurrency;
  const now = `${used} of ${limit ?? "∞"}`;
  return waiting === 0 ? now : `${now}, ${waiting} waiting`;
}
