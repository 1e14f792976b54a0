import { type Page, request } from "../../lib/api.ts";
import { useLoad } from "../../lib/load.ts";
import { DEFAULT_OPTIONS, type Options } from "./request.ts";
import { options } from "./state.ts";

const FUNCTION_EXAMPLE =
  '{"name": "get_weather",\n "parameters": {"type": "object",\n  "properties": {"city": {"type": "string"}}}}';
const MCP_EXAMPLE =
  '{"server_label": "docs",\n "server_url": "https://…/mcp",\n "require_approval": "always"}';
const SCHEMA_EXAMPLE = '{"type": "object",\n "properties": {"answer": {"type": "string"}}}';

function set(changes: Partial<Options>): void {
  options.value = { ...options.value, ...changes };
}

type TextName =
  | "instructions"
  | "temperature"
  | "topP"
  | "maxOutputTokens"
  | "functions"
  | "mcpServers"
  | "schema";

function Area({
  name,
  label,
  placeholder,
  rows = 3,
}: {
  name: TextName;
  label: string;
  placeholder: string;
  rows?: number;
}) {
  return (
    <label>
      {label}
      <textarea
        class={name === "instructions" ? undefined : "mono"}
        rows={rows}
        placeholder={placeholder}
        spellcheck={name === "instructions"}
        value={options.value[name]}
        onInput={(event) => set({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}

function NumberField({ name, label, step }: { name: TextName; label: string; step: string }) {
  return (
    <label>
      {label}
      <input
        type="number"
        min="0"
        step={step}
        placeholder="default"
        value={options.value[name]}
        onInput={(event) => set({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}

function Check({
  name,
  label,
}: {
  name: "webSearch" | "interpreter" | "background" | "trace";
  label: string;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={options.value[name]}
        onChange={(event) => set({ [name]: event.currentTarget.checked })}
      />{" "}
      {label}
    </label>
  );
}

function Choice({
  name,
  label,
  values,
}: {
  name: "effort" | "profile";
  label: string;
  values: readonly string[];
}) {
  return (
    <label>
      {label}
      <select value={options.value[name]} onChange={(event) => set({ [name]: event.currentTarget.value })}>
        <option value="">default</option>
        {values.map((value) => (
          <option key={value}>{value}</option>
        ))}
      </select>
    </label>
  );
}

interface VectorStore {
  readonly id: string;
  readonly name: string | null;
}

function VectorStores() {
  const { data } = useLoad(
    (signal) => request<Page<VectorStore>>("/v1/vector_stores", { query: { limit: 100 }, signal }),
    [],
  );
  const chosen = options.value.vectorStores;
  if (data === undefined) return null;
  if (data.data.length === 0) {
    return (
      <p class="muted">
        File search: no vector store yet. <a href="#/stores">Make one</a>.
      </p>
    );
  }
  return (
    <fieldset>
      <legend>Search in vector stores</legend>
      {data.data.map(({ id, name }) => (
        <label key={id} class="check">
          <input
            type="checkbox"
            checked={chosen.includes(id)}
            onChange={(event) =>
              set({
                vectorStores: event.currentTarget.checked
                  ? [...chosen, id]
                  : chosen.filter((one) => one !== id),
              })
            }
          />{" "}
          {name || id}
        </label>
      ))}
    </fieldset>
  );
}

/** Everything that a request can set besides its model and its input. */
export function OptionsPanel() {
  return (
    <aside class="options stack" aria-label="Parameters">
      <div class="row spread">
        <h2>Parameters</h2>
        <button
          type="button"
          class="link"
          onClick={() => {
            options.value = DEFAULT_OPTIONS;
          }}
        >
          Reset
        </button>
      </div>
      <Area name="instructions" label="Instructions" placeholder="You are…" />
      <div class="fields">
        <Choice
          name="effort"
          label="Reasoning effort"
          values={["none", "minimal", "low", "medium", "high", "xhigh"]}
        />
        <NumberField name="temperature" label="Temperature" step="0.1" />
        <NumberField name="topP" label="Top p" step="0.05" />
        <NumberField name="maxOutputTokens" label="Max. output tokens" step="1" />
      </div>
      <details>
        <summary>Tools</summary>
        <div class="stack">
          <Check name="webSearch" label="Web search" />
          <Check name="interpreter" label="Code interpreter" />
          <VectorStores />
          <Area name="functions" label="Functions (JSON)" placeholder={FUNCTION_EXAMPLE} rows={5} />
          <Area name="mcpServers" label="MCP servers (JSON)" placeholder={MCP_EXAMPLE} rows={5} />
        </div>
      </details>
      <details>
        <summary>Schema of the answer</summary>
        <Area name="schema" label="JSON schema" placeholder={SCHEMA_EXAMPLE} rows={6} />
      </details>
      <details>
        <summary>Delivery</summary>
        <div class="stack">
          <Choice name="profile" label="Profile" values={["openai", "maestro", "proxy"]} />
          <Check name="background" label="Background: it goes on if this page is closed" />
          <Check name="trace" label="Record a trace: what is sent to the model's server" />
        </div>
      </details>
    </aside>
  );
}
