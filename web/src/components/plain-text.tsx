import { useState } from "preact/hooks";
import { segments } from "../lib/controls.ts";
import { count } from "../lib/format.ts";

const FIRST_CHARS = 20_000;
const MORE_CHARS = 200_000;

/** Text with its hidden characters named. It isolates its own direction from what stands around it. */
export function Text({ text }: { text: string }) {
  return (
    <bdi>
      {segments(text).map((segment, index) =>
        segment.control ? (
          <span key={index} class="control" title="A character that cannot be seen">
            {segment.text}
          </span>
        ) : (
          segment.text
        ),
      )}
    </bdi>
  );
}

/** Text of any length: what is long is cut, and shown on demand. */
export function LongText({ text, first = FIRST_CHARS }: { text: string; first?: number }) {
  const [shown, setShown] = useState(first);
  const rest = text.length - shown;
  return (
    <>
      <Text text={rest > 0 ? text.slice(0, shown) : text} />
      {rest > 0 && (
        <button type="button" class="link more" onClick={() => setShown(shown + MORE_CHARS)}>
          Show more ({count(rest)} characters)
        </button>
      )}
    </>
  );
}

/** So rarely does the beginning of a growing text move, which would otherwise be read while it changes. */
const CUT_STEP_CHARS = 5000;

/** The end of a text that grows: what is long is cut at its beginning, and shown on demand. */
export function GrowingText({ text }: { text: string }) {
  const [shown, setShown] = useState(FIRST_CHARS);
  const cut = Math.floor(Math.max(0, text.length - shown) / CUT_STEP_CHARS) * CUT_STEP_CHARS;
  return (
    <>
      {cut > 0 && (
        <button type="button" class="link more" onClick={() => setShown(shown + MORE_CHARS)}>
          Show more ({count(cut)} characters before)
        </button>
      )}
      <Text text={text.slice(cut)} />
    </>
  );
}

export function Pre({ text }: { text: string }) {
  return (
    <pre class="block" tabIndex={0}>
      <LongText text={text} />
    </pre>
  );
}
