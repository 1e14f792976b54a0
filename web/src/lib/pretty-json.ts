/** Deeper values stay on one line, so that indentation does not multiply the length of the text. */
const MAX_LEVELS = 20;
const TOKEN_START = /[^\s]/g;
const WORD_END = /[\s,\]}]/g;
const STRING_STOP = /["\\]/g;

/**
 * JSON, indented; a text that is not JSON as it is. Only the space between tokens changes. A value that is parsed and
 * rendered again may differ from what the server holds: of members with the same name only the last one is left,
 * large numbers are rounded, and 1e400 becomes null.
 */
export function prettyJson(text: string): string {
  if (!isJson(text)) return text;
  const pieces: string[] = [];
  let level = 0;
  let before = "";
  const lineOf = (inner: number) => (inner <= MAX_LEVELS ? `\n${"  ".repeat(level)}` : "");
  for (const token of tokensOf(text)) {
    const afterOpening = before === "{" || before === "[";
    if (token === "}" || token === "]") {
      level -= 1;
      if (!afterOpening) pieces.push(lineOf(level + 1));
    } else if (afterOpening) pieces.push(lineOf(level));
    else if (before === ",") pieces.push(lineOf(level) || " ");
    else if (before === ":") pieces.push(" ");
    pieces.push(token);
    if (token === "{" || token === "[") level += 1;
    before = token;
  }
  return pieces.join("");
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The tokens of valid JSON. */
function* tokensOf(text: string): Generator<string> {
  for (let start = nextOf(TOKEN_START, text, 0); start < text.length; ) {
    const end = tokenEnd(text, start);
    yield text.slice(start, end);
    start = nextOf(TOKEN_START, text, end);
  }
}

function tokenEnd(text: string, start: number): number {
  const first = text.charAt(start);
  if ("{}[],:".includes(first)) return start + 1;
  if (first !== '"') return nextOf(WORD_END, text, start);
  let at = nextOf(STRING_STOP, text, start + 1);
  while (text[at] === "\\") at = nextOf(STRING_STOP, text, at + 2);
  return at + 1;
}

/** Where the next match begins; the length of the text if there is none. */
function nextOf(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? text.length;
}
