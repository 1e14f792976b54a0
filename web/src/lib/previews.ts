/** Each is a mark of Markdown at a place where it is one, with what stays of it. */
const MARKS: readonly (readonly [RegExp, string])[] = [
  [/```\w*/g, ""],
  [/(^|\s)#{1,6} /g, "$1"],
  [/(^|\s)> /g, "$1"],
  [/(\*\*|__)(?=\S)(.+?)\1/g, "$2"],
  [/(?<!\w)([*_])(?=\S)([^*_]+)\1(?!\w)/g, "$2"],
  [/`([^`]+)`/g, "$1"],
  [/!?\[([^\]]*)\]\([^)\s]*\)/g, "$1"],
];

/** The line of a preview without the marks of Markdown. */
export function withoutMarks(line: string): string {
  return MARKS.reduce((text, [mark, kept]) => text.replace(mark, kept), line).trim();
}
