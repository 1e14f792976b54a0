import { useSignal } from "@preact/signals";
import { send } from "../../lib/api.ts";
import { readEvents } from "../../lib/sse.ts";
import { Act, Badge, Failure, Scrolled, visible } from "../parts.tsx";
import type { Check, Model } from "./types.ts";

/** Runs the checks of `antiphon conformance` on a model of this server, and shows each as it ends. */
export function Conformance({ models }: { models: readonly Model[] }) {
  const chats = models.filter((model) => model.kind !== "embedding");
  const chosen = useSignal(chats[0]?.id ?? "");
  const checks = useSignal<readonly Check[]>([]);
  const running = useSignal(false);
  const error = useSignal<unknown>(undefined);
  const run = async () => {
    checks.value = [];
    error.value = undefined;
    running.value = true;
    try {
      const response = await send("/v1/conformance", { method: "POST", body: { model: chosen.value } });
      if (response.body === null) return;
      for await (const { data } of readEvents(response.body)) {
        const check = data === "[DONE]" ? {} : (JSON.parse(data) as Partial<Check>);
        if (check.name !== undefined && check.outcome !== undefined)
          checks.value = [...checks.value, check as Check];
      }
    } catch (cause) {
      error.value = cause;
    } finally {
      running.value = false;
    }
  };
  const counted = (outcome: string) => checks.value.filter((check) => check.outcome === outcome).length;
  return (
    <section aria-labelledby="conformance">
      <h2 id="conformance">Conformance</h2>
      <div class="row">
        <label class="inline-label">
          Model
          <select
            value={chosen.value}
            onChange={({ currentTarget }) => {
              chosen.value = currentTarget.value;
            }}
          >
            {chats.map(({ id }) => (
              <option key={id}>{id}</option>
            ))}
          </select>
        </label>
        <Act
          label="Run the checks"
          kind="primary"
          scope="admin"
          off={chosen.value === "" ? "There is no model to check." : undefined}
          onClick={run}
        />
        <span role="status" class="muted">
          {checks.value.length > 0 &&
            `${counted("passed")} passed, ${counted("failed")} failed, ${counted("skipped")} skipped`}
          {running.value && " …"}
        </span>
      </div>
      <Failure error={error.value} />
      {checks.value.length > 0 && (
        <Scrolled label="Conformance checks">
          <table>
            <thead>
              <tr>
                <th>outcome</th>
                <th>check</th>
                <th>detail</th>
                <th class="number">took</th>
              </tr>
            </thead>
            <tbody>
              {checks.value.map((check) => (
                <tr key={check.name}>
                  <td>
                    <Badge status={check.outcome} />
                  </td>
                  <td>
                    {visible(check.title ?? check.name)}
                    <div class="muted mono">{visible(check.name)}</div>
                  </td>
                  <td class="wide">{visible(check.detail ?? "")}</td>
                  <td class="number">
                    {check.seconds === undefined ? "–" : `${check.seconds.toFixed(2)} s`}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scrolled>
      )}
    </section>
  );
}
