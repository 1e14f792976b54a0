import { marked, type Token, type Tokens } from "marked";

/** Markdown as data. HTML in it is text; there is no way to set HTML from here. */
export type Block =
  | {
      readonly kind: "paragraph" | "quote";
      readonly children: readonly Inline[];
      readonly blocks?: readonly Block[];
    }
  | { readonly kind: "heading"; readonly level: number; readonly children: readonly Inline[] }
  | { readonly kind: "code"; readonly language: string; readonly text: string }
  | {
      readonly kind: "list";
      readonly ordered: boolean;
      readonly start: number;
      readonly items: readonly ListItem[];
    }
  | { readonly kind: "table"; readonly head: readonly Cell[]; readonly rows: readonly (readonly Cell[])[] }
  | { readonly kind: "rule" }
  | { readonly kind: "text"; readonly text: string };

export interface ListItem {
  readonly checked: boolean | undefined;
  readonly blocks: readonly Block[];
}

export type Cell = readonly Inline[];

export type Inline =
  | { readonly kind: "text" | "code"; readonly text: string }
  | { readonly kind: "strong" | "em" | "del"; readonly children: readonly Inline[] }
  | { readonly kind: "link"; readonly href: string | undefined; readonly children: readonly Inline[] }
  | { readonly kind: "image"; readonly href: string | undefined; readonly alt: string }
  | { readonly kind: "break" };

/** Longer blocks are shown as plain text: a parser's time on them is not bounded. */
const MAX_BLOCK_CHARS = 20_000;
const MAX_DEPTH = 24;

/** The address, if it is one that is safe to follow: the web, mail, or a place in a page. */
export function safeHref(href: string): string | undefined {
  try {
    const { protocol } = new URL(href);
    return protocol === "https:" || protocol === "http:" || protocol === "mailto:" ? href : undefined;
  } catch {
    return undefined;
  }
}

/** The blocks of a text. Blocks that are too long or nested too deep are plain text. */
export function parseMarkdown(text: string): Block[] {
  if (text.length > MAX_BLOCK_CHARS || deepestNesting(text) > MAX_DEPTH) return [{ kind: "text", text }];
  return marked.lexer(text, { gfm: true, breaks: true }).flatMap((token) => blockOf(token));
}

/** An upper bound for how deep quotes and lists can nest, without parsing. */
function deepestNesting(text: string): number {
  let deepest = 0;
  for (const [prefix] of text.matchAll(/^[\s>*+-]*/gm)) deepest = Math.max(deepest, markersIn(prefix));
  return deepest;
}

function markersIn(prefix: string): number {
  return prefix.replace(/\s{2}/g, "-").replace(/[^>*+-]/g, "").length;
}

function blockOf(token: Token): Block[] {
  switch (token.type) {
    case "space":
    case "def":
      return [];
    case "heading":
      return [{ kind: "heading", level: (token as Tokens.Heading).depth, children: inlinesOf(token.tokens) }];
    case "code":
      return [
        { kind: "code", language: (token as Tokens.Code).lang ?? "", text: (token as Tokens.Code).text },
      ];
    case "hr":
      return [{ kind: "rule" }];
    case "blockquote":
      return [{ kind: "quote", children: [], blocks: (token.tokens ?? []).flatMap(blockOf) }];
    case "list":
      return [listOf(token as Tokens.List)];
    case "table":
      return [tableOf(token as Tokens.Table)];
    case "paragraph":
    case "text":
      return [{ kind: "paragraph", children: inlinesOf(token.tokens ?? [token]) }];
    default:
      return [{ kind: "text", text: token.raw }];
  }
}

function listOf(list: Tokens.List): Block {
  const items = list.items.map((item) => ({
    checked: item.task ? item.checked === true : undefined,
    blocks: item.tokens.filter(({ type }) => type !== "checkbox").flatMap(blockOf),
  }));
  return { kind: "list", ordered: list.ordered, start: Number(list.start) || 1, items };
}

function tableOf(table: Tokens.Table): Block {
  const cells = (row: readonly Tokens.TableCell[]) => row.map(({ tokens }) => inlinesOf(tokens));
  return { kind: "table", head: cells(table.header), rows: table.rows.map(cells) };
}

function inlinesOf(tokens: readonly Token[] | undefined): Inline[] {
  return (tokens ?? []).map(inlineOf);
}

function inlineOf(token: Token): Inline {
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return { kind: token.type, children: inlinesOf(token.tokens) };
    case "codespan":
      return { kind: "code", text: (token as Tokens.Codespan).text };
    case "br":
      return { kind: "break" };
    case "link":
      return { kind: "link", href: safeHref((token as Tokens.Link).href), children: inlinesOf(token.tokens) };
    case "image": {
      const image = token as Tokens.Image;
      return { kind: "image", href: safeHref(image.href), alt: image.text };
    }
    case "escape":
    case "text":
      return token.type === "text" && token.tokens !== undefined
        ? { kind: "em", children: inlinesOf(token.tokens) }
        : { kind: "text", text: (token as Tokens.Text).text };
    default:
      return { kind: "text", text: token.raw };
  }
}

/**
 * Splits a growing text into blocks that can change no more, and the tail that still can.
 *
 * A blank line outside a code fence ends a block, if the next line has no indentation (which would continue a list).
 * Only the tail is parsed again with every delta, so that the work does not grow with the length of the answer.
 */
export class SettledText {
  readonly settled: string[] = [];
  tail = "";
  #fence: string | undefined;
  #scanned = 0;
  #cut = -1;

  append(delta: string): void {
    this.tail += delta;
    for (
      let end = this.tail.indexOf("\n", this.#scanned);
      end !== -1;
      end = this.tail.indexOf("\n", this.#scanned)
    ) {
      this.#line(this.tail.slice(this.#scanned, end), end + 1);
    }
  }

  #line(line: string, next: number): void {
    const fence = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (this.#cut !== -1 && line.trim() !== "") {
      const startsBlock = /^\S/.test(line) && !/^([-*+]|\d+[.)])\s/.test(line);
      if (startsBlock) {
        this.settled.push(this.tail.slice(0, this.#cut));
        this.tail = this.tail.slice(this.#cut);
        next -= this.#cut;
      }
      this.#cut = -1;
    }
    if (fence !== undefined && this.#fence === undefined) this.#fence = fence;
    else if (fence !== undefined && line.trim() === fence && fence.startsWith(this.#fence ?? ""))
      this.#fence = undefined;
    else if (line.trim() === "" && this.#fence === undefined) this.#cut = next;
    this.#scanned = next;
  }
}
