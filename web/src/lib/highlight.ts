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
