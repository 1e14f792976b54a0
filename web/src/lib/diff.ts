/** A stretch of text that both versions have, or one of them. */
export interface Change {
  readonly kind: "same" | "added" | "removed";
  readonly text: string;
}

/** Texts that differ in more places than this are shown one after the other. */
const MAX_EDITS = 1500;
const MAX_TOKENS = 40_000;

/** The changes from `before` to `after`, by words; by lines if the texts are long. */
export function diffText(before: string, after: string): Change[] {
  const words = [tokens(before, /(\s+)/), tokens(after, /(\s+)/)] as const;
  const [old, fresh] =
    words[0].length + words[1].length <= MAX_TOKENS
      ? words
      : [tokens(before, /(?<=\n)/), tokens(after, /(?<=\n)/)];
  const path = shortestEdits(old, fresh);
  return path === undefined ? wholly(before, after) : joined(path, old, fresh);
}

function tokens(text: string, separator: RegExp): string[] {
  return text.split(separator).filter((token) => token !== "");
}

function wholly(before: string, after: string): Change[] {
  const both: Change[] = [
    { kind: "removed", text: before },
    { kind: "added", text: after },
  ];
  return both.filter(({ text }) => text !== "");
}

/**
 * The furthest points reached with 0, 1, 2 … edits (Myers' greedy algorithm): `frontiers[d][k + d]` is the furthest
 * position in `old` on diagonal k. Undefined if more than MAX_EDITS are needed.
 */
function shortestEdits(old: readonly string[], fresh: readonly string[]): Int32Array[] | undefined {
  const frontiers: Int32Array[] = [];
  for (let edits = 0; edits <= MAX_EDITS; edits += 1) {
    const frontier = new Int32Array(2 * edits + 1);
    for (let k = -edits; k <= edits; k += 2) {
      let x = startOn(frontiers.at(-1), edits, k);
      while (x < old.length && x - k < fresh.length && old[x] === fresh[x - k]) x += 1;
      frontier[k + edits] = x;
      if (x >= old.length && x - k >= fresh.length) {
        frontiers.push(frontier);
        return frontiers;
      }
    }
    frontiers.push(frontier);
  }
  return undefined;
}

/** True if the best way onto diagonal k with `edits` edits is to take a token of `fresh`. */
function comesFromAbove(previous: Int32Array, edits: number, k: number): boolean {
  const at = k + edits - 1;
  return k === -edits || (k !== edits && (previous[at - 1] ?? 0) < (previous[at + 1] ?? 0));
}

function startOn(previous: Int32Array | undefined, edits: number, k: number): number {
  if (previous === undefined) return 0;
  const at = k + edits - 1;
  return comesFromAbove(previous, edits, k) ? (previous[at + 1] ?? 0) : (previous[at - 1] ?? 0) + 1;
}

/** Walks back from the end, and joins neighbours of one kind. */
function joined(
  frontiers: readonly Int32Array[],
  old: readonly string[],
  fresh: readonly string[],
): Change[] {
  const reversed: Change[] = [];
  let x = old.length;
  let y = fresh.length;
  for (let edits = frontiers.length - 1; edits > 0; edits -= 1) {
    const previous = frontiers[edits - 1];
    if (previous === undefined) break;
    const k = x - y;
    const added = comesFromAbove(previous, edits, k);
    const fromK = added ? k + 1 : k - 1;
    const fromX = previous[fromK + edits - 1] ?? 0;
    const editEnd = added ? fromX : fromX + 1;
    for (; x > editEnd; x -= 1) reversed.push({ kind: "same", text: old[x - 1] ?? "" });
    reversed.push(
      added
        ? { kind: "added", text: fresh[fromX - fromK] ?? "" }
        : { kind: "removed", text: old[fromX] ?? "" },
    );
    x = fromX;
    y = fromX - fromK;
  }
  for (; x > 0; x -= 1) reversed.push({ kind: "same", text: old[x - 1] ?? "" });
  return merged(reversed.reverse());
}

function merged(changes: readonly Change[]): Change[] {
  const runs: { kind: Change["kind"]; parts: string[] }[] = [];
  for (const { kind, text } of changes) {
    const last = runs.at(-1);
    if (last?.kind === kind) last.parts.push(text);
    else runs.push({ kind, parts: [text] });
  }
  return runs.map(({ kind, parts }) => ({ kind, text: parts.join("") }));
}
