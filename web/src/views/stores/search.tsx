import { useSignal } from "@preact/signals";
import { EmptyState } from "../../components/states.tsx";
import { type Page, request } from "../../lib/api.ts";
import { duration } from "../../lib/format.ts";
import { excerptOf, highlighted } from "../../lib/highlight.ts";
import { score } from "../figures.ts";
import { Failure, visible } from "../parts.tsx";
import type { Result } from "./types.ts";

const MAX_SHOWN_CHARS = 4000;

interface Found {
  readonly question: string;
  readonly results: readonly Result[];
  readonly tookMs: number;
}

export function SearchBox({ storeId }: { storeId: string }) {
  const question = useSignal("");
  const found = useSignal<Found | undefined>(undefined);
  const error = useSignal<unknown>(undefined);
  const search = async (event: Event) => {
    event.preventDefault();
    const asked = question.value.trim();
    if (asked === "") return;
    const began = performance.now();
    try {
      const path = `/v1/vector_stores/${encodeURIComponent(storeId)}/search`;
      const page = await request<Page<Result>>(path, { method: "POST", body: { query: asked } });
      found.value = { question: asked, results: page.data, tookMs: performance.now() - began };
      error.value = undefined;
    } catch (cause) {
      error.value = cause;
    }
  };
  return (
    <section aria-labelledby="search">
      <h2 id="search">Search</h2>
      <form class="row" onSubmit={search}>
        <label class="grow">
          <span class="visually-hidden">Question</span>
          <input
            type="search"
            placeholder="Ask in your own words"
            value={question.value}
            onInput={({ currentTarget }) => {
              question.value = currentTarget.value;
            }}
          />
        </label>
        <button type="submit" class="action primary">
          Search
        </button>
      </form>
      <Failure error={error.value} />
      {found.value !== undefined && <Results {...found.value} />}
    </section>
  );
}

function Results({ question, results, tookMs }: Found) {
  if (results.length === 0) {
    return (
      <EmptyState title="Nothing found">Try other words, or look whether the files are completed.</EmptyState>
    );
  }
  return (
    <div role="status" aria-label="Results">
      <p class="muted">
        {results.length} results in {duration(tookMs)}
      </p>
      <ol class="results">
        {results.map((result, index) => (
          <li key={index} class="card">
            <div class="row spread">
              <strong>{visible(result.filename)}</strong>
              <Scores result={result} />
            </div>
            {result.content.map((part, number) => (
              <Passage key={number} text={part.text} question={question} />
            ))}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Scores({ result: { scores } }: { result: Result }) {
  return (
    <dl class="scores">
      <dt>text</dt>
      <dd>{score(scores.text)}</dd>
      <dt>vector</dt>
      <dd>{score(scores.vector)}</dd>
      <dt>mixed</dt>
      <dd>
        <meter min={0} max={1} value={scores.mixed} aria-label="Score" /> {score(scores.mixed)}
      </dd>
    </dl>
  );
}

function Passage({ text, question }: { text: string; question: string }) {
  const whole = useSignal(false);
  const pieces = highlighted(visible(text.slice(0, MAX_SHOWN_CHARS)), question);
  const excerpt = excerptOf(pieces);
  return (
    <>
      <p class="passage">
        {(whole.value ? pieces : excerpt.pieces).map((piece, index) =>
          piece.marked ? <mark key={index}>{piece.text}</mark> : piece.text,
        )}
        {(whole.value ? text.length > MAX_SHOWN_CHARS : excerpt.cut) && " …"}
      </p>
      {excerpt.cut && (
        <button
          type="button"
          class="link"
          aria-expanded={whole.value}
          onClick={() => {
            whole.value = !whole.value;
          }}
        >
          {whole.value ? "Show less" : "Show the passage"}
        </button>
      )}
    </>
  );
}
