import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { GrowingText } from "../../components/plain-text.tsx";
import { request } from "../../lib/api.ts";
import { type Followed, follow } from "../../lib/follow.ts";
import { useLoad } from "../../lib/load.ts";
import { prettyJson } from "../../lib/pretty-json.ts";
import { isFinal } from "../../lib/types.ts";
import { moment } from "../figures.ts";
import { Act, Badge, Failure, Head, Id, LongText, visible } from "../parts.tsx";
import { Cancel } from "./index.tsx";
import type { OutputItem, ResponseObject } from "./types.ts";

/** The text of each item that is written now, by its id. */
type Texts = Readonly<Record<string, string>>;

/** Collects deltas until the next frame: a stream that is caught up on has thousands of them at once. */
class Growth {
  readonly #show: (grown: Texts) => void;
  readonly #texts = new Map<string, string>();
  #frame = 0;

  constructor(show: (grown: Texts) => void) {
    this.#show = show;
  }

  /** False for an event that is no delta of an item. */
  add({ item_id: id, delta }: Followed): boolean {
    if (typeof id !== "string" || typeof delta !== "string") return false;
    this.#texts.set(id, (this.#texts.get(id) ?? "") + delta);
    if (this.#frame === 0) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#show(Object.fromEntries(this.#texts));
      });
    }
    return true;
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
  }
}

export function BackgroundResponse({ id }: { id: string }) {
  const path = `/v1/responses/${encodeURIComponent(id)}`;
  const texts = useSignal<Texts>({});
  const items = useSignal<readonly OutputItem[]>([]);
  const connected = useSignal(true);
  const broken = useSignal<unknown>(undefined);
  const { data: shown, error, reload } = useLoad<ResponseObject>((signal) => request(path, { signal }), [id]);
  const live = shown !== undefined && !isFinal(shown.status);
  useEffect(() => {
    if (!live) return undefined;
    const abort = new AbortController();
    const growth = new Growth((grown) => {
      texts.value = grown;
    });
    const onEvent = (event: Followed) => {
      if (!growth.add(event) && event.type === "response.output_item.added")
        items.value = [...items.value, event.item as OutputItem];
    };
    follow({ path, signal: abort.signal, onEvent, onConnection: (is) => (connected.value = is) })
      .then(reload)
      .catch((cause) => {
        if (!abort.signal.aborted) broken.value = cause;
      });
    return () => {
      abort.abort();
      growth.stop();
    };
  }, [live]);
  const output = live ? items.value : (shown?.output ?? []);
  return (
    <>
      <Head title="Background response">
        {live && <Cancel path={path} id={id} reload={reload} />}
        <a class="button" href={`#/responses/${id}`}>
          Details
        </a>
      </Head>
      <Failure error={error ?? broken.value} retry={reload} />
      {!connected.value && live && (
        <p role="status">The connection broke. The response goes on; connecting again …</p>
      )}
      {shown !== undefined && (
        <>
          <dl class="properties">
            <dt>status</dt>
            <dd>
              <Badge status={shown.status} />
            </dd>
            <dt>response</dt>
            <dd>
              <Id whole value={shown.id} />
            </dd>
            <dt>model</dt>
            <dd>{visible(shown.model)}</dd>
            <dt>started</dt>
            <dd>{moment(shown.created_at)}</dd>
          </dl>
          {shown.error !== null && (
            <Failure error={new Error(`${shown.error.message} (${shown.error.code})`)} />
          )}
          <h2>Output</h2>
          {output.length === 0 && <p class="muted">No output yet.</p>}
          <ol class="turns" aria-live="polite">
            {output.map((item) => (
              <Item key={item.id} item={item} text={live ? texts.value[item.id] : undefined} />
            ))}
          </ol>
          <p class="row">
            <Act label="Refresh" onClick={reload} />
          </p>
        </>
      )}
    </>
  );
}

/** `text` is what was written so far, while it is written. */
function Item({ item, text }: { item: OutputItem; text: string | undefined }) {
  const said = [...(item.summary ?? []), ...(item.content ?? [])].map((part) => part.text ?? "").join("\n");
  return (
    <li class="turn">
      <div class="row">
        <strong>{item.type.replaceAll("_", " ")}</strong>
        {item.name !== undefined && <code>{visible(item.name)}</code>}
        {item.status !== undefined && <Badge status={item.status} />}
      </div>
      {text !== undefined ? (
        <div class="long-text">
          <GrowingText text={text} />
        </div>
      ) : (
        said !== "" && <LongText text={said} />
      )}
      {item.arguments !== undefined && item.arguments !== "" && (
        <LongText mono text={prettyJson(item.arguments)} />
      )}
    </li>
  );
}
