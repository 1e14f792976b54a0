/** Characters that change the order of what surrounds them, or that cannot be seen at all. */
const NAMES: Readonly<Record<string, string>> = {
  "\u061c": "ALM",
  "\u200b": "ZWSP",
  "\u200e": "LRM",
  "\u200f": "RLM",
  "\u202a": "LRE",
  "\u202b": "RLE",
  "\u202c": "PDF",
  "\u202d": "LRO",
  "\u202e": "RLO",
  "\u2060": "WJ",
  "\u2066": "LRI",
  "\u2067": "RLI",
  "\u2068": "FSI",
  "\u2069": "PDI",
  "\ufeff": "BOM",
};
const CONTROLS =
  /([\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff])/;

export interface Segment {
  readonly text: string;
  /** True if `text` is the name of a character that is not shown itself. */
  readonly control: boolean;
}

/** Splits a text, with the name of every hidden character in its place. */
export function segments(text: string): Segment[] {
  if (!CONTROLS.test(text)) return [{ text, control: false }];
  return text
    .split(CONTROLS)
    .map((part, index) =>
      index % 2 === 0 ? { text: part, control: false } : { text: nameOf(part), control: true },
    )
    .filter(({ text: part }) => part !== "");
}

function nameOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return NAMES[character] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}
