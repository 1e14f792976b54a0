/** Marks the words of a question in a text, as the search compares them: without case and accents. */

export interface Piece {
  readonly text: string;
  readonly marked: boolean;
}

const WORD = /[\p{L}\p{N}]+/gu;
const MIN_WORD_CHARS = 3;
const MIN_STEM_CHARS = 4;

function plain(word: string): string {
  return word.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}

/** Equal, or one begins with the other: “keys” is found in a text about a “key”. */
function matches(word: string, wanted: string): boolean {
  if (word === wanted) return true;
  const [short, long] = word.length < wanted.length ? [word, wanted] : [wanted, word];
  return short.length >= MIN_STEM_CHARS && long.startsWith(short);
}

export interface Excerpt {
  readonly pieces: readonly Piece[];
  /** Whether something of the text is missing. */
  readonly cut: boolean;
}

const CONTEXT_CHARS = 60;
const EXCERPT_CHARS = 300;

/** The place of the first mark, with a few words before it, or the beginning of a text without marks. */
export function excerptOf(pieces: readonly Piece[]): Excerpt {
  const first = pieces.findIndex(({ marked }) => marked);
  const found: Piece[] = [];
  let room = EXCERPT_CHARS;
  if (first > 0) {
    const { text = "" } = pieces[first - 1] ?? {};
    const context = text.length > CONTEXT_CHARS ? text.slice(-CONTEXT_CHARS).replace(/^\S*\s+/, "") : text;
    found.push({ text: context, marked: false });
    room -= context.length;
  }
  for (const { text, marked } of pieces.slice(Math.max(0, first))) {
    if (room <= 0) break;
    found.push({ text: text.slice(0, room), marked });
    room -= text.length;
  }
  return { pieces: found, cut: lengthOf(found) < lengthOf(pieces) };
}

function lengthOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, { text }) => sum + text.length, 0);
}

export function highlighted(text: string, question: string): Piece[] {
  const wanted = [...question.matchAll(WORD)]
    .map(([word]) => plain(word))
    .filter((word) => word.length >= MIN_WORD_CHARS);
  const pieces: Piece[] = [];
  let end = 0;
  for (const { 0: word, index } of text.matchAll(WORD)) {
    if (!wanted.some((each) => matches(plain(word), each))) continue;
    if (index > end) pieces.push({ text: text.slice(end, index), marked: false });
    pieces.push({ text: word, marked: true });
    end = index + word.length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), marked: false });
  return pieces;
}
