import type { Annotation, Item, PassagePlace, SearchHit } from "./types.ts";

export interface Passages {
  /** Those that the citation names; all of the file if it names none, as with stores of other servers. */
  readonly cited: readonly SearchHit[];
  /** Of the same file, found by the same searches. */
  readonly others: readonly SearchHit[];
}

/** The passages of a citation's file among the results of these items, each once. */
export function passagesOf({ file_id, antiphon: place }: Annotation, items: readonly Item[]): Passages {
  const found: SearchHit[] = [];
  for (const hit of items.flatMap(({ results }) => results ?? [])) {
    if (hit.file_id === undefined || hit.file_id !== file_id) continue;
    if (!found.some((other) => isPlace(other.antiphon, hit.antiphon))) found.push(hit);
  }
  if (place?.chunk === undefined) return { cited: found, others: [] };
  const isCited = (hit: SearchHit) => isPlace(hit.antiphon, place);
  return { cited: found.filter(isCited), others: found.filter((hit) => !isCited(hit)) };
}

function isPlace(one: PassagePlace | undefined, other: PassagePlace | undefined): boolean {
  return (
    one?.chunk !== undefined && one.chunk === other?.chunk && one.vector_store_id === other.vector_store_id
  );
}
