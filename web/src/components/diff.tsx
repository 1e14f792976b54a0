import { useMemo } from "preact/hooks";
import { diffText } from "../lib/diff.ts";
import { LongText } from "./plain-text.tsx";

/** Two texts as one: what was removed and what was added is marked, for the eye and for a screen reader. */
export function Diff({ before, after }: { before: string; after: string }) {
  const changes = useMemo(() => diffText(before, after), [before, after]);
  if (before === after) return <p class="muted">The same.</p>;
  return (
    <div class="diff">
      {changes.map(({ kind, text }, index) => {
        if (kind === "added") return <ins key={index}>{<LongText text={text} />}</ins>;
        if (kind === "removed") return <del key={index}>{<LongText text={text} />}</del>;
        return <LongText key={index} text={text} />;
      })}
    </div>
  );
}
