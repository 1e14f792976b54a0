import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import { type Block, type Inline, parseMarkdown } from "../lib/markdown.ts";
import { CopyButton } from "./buttons.tsx";
import { LongText, Text } from "./plain-text.tsx";

function Inlines({ children }: { children: readonly Inline[] }) {
  return (
    <>
      {children.map((inline, index) => (
        <InlineNode key={index} inline={inline} />
      ))}
    </>
  );
}

function InlineNode({ inline }: { inline: Inline }) {
  switch (inline.kind) {
    case "text":
      return <LongText text={inline.text} />;
    case "code":
      return (
        <code>
          <LongText text={inline.text} />
        </code>
      );
    case "break":
      return <br />;
    case "strong":
      return (
        <strong>
          <Inlines>{inline.children}</Inlines>
        </strong>
      );
    case "em":
      return (
        <em>
          <Inlines>{inline.children}</Inlines>
        </em>
      );
    case "del":
      return (
        <del>
          <Inlines>{inline.children}</Inlines>
        </del>
      );
    case "link":
      return (
        <SafeLink href={inline.href}>
          <Inlines>{inline.children}</Inlines>
        </SafeLink>
      );
    case "image":
      // Never loaded: that would tell another server who reads this, and when.
      return (
        <SafeLink href={inline.href}>
          [image: {inline.alt === "" ? "untitled" : <Text text={inline.alt} />}]
        </SafeLink>
      );
  }
}

/** A link that shows where it leads; plain text if the address is not one to follow. */
export function SafeLink({
  href,
  children,
}: {
  href: string | undefined;
  children: preact.ComponentChildren;
}) {
  if (href === undefined) {
    return (
      <span class="dead-link" title="Not a web address: not linked">
        {children}
      </span>
    );
  }
  return (
    <a href={href} title={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

export function CodeBlock({ text, language = "" }: { text: string; language?: string }) {
  return (
    <figure class="code">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={text} label="Copy the code" />
      </figcaption>
      <pre tabIndex={0}>
        <LongText text={text} />
      </pre>
    </figure>
  );
}

function BlockNode({ block }: { block: Block }) {
  switch (block.kind) {
    case "paragraph":
      return (
        <p>
          <Inlines>{block.children}</Inlines>
        </p>
      );
    case "text":
      return (
        <p class="pre-wrap">
          <LongText text={block.text} />
        </p>
      );
    case "heading":
      return (
        // A heading of the content is none of the page: its level would break the outline.
        <p class={`heading heading-${block.level}`}>
          <Inlines>{block.children}</Inlines>
        </p>
      );
    case "quote":
      return <blockquote>{(block.blocks ?? []).map(keyedBlock)}</blockquote>;
    case "code":
      return <CodeBlock text={block.text} language={block.language} />;
    case "rule":
      return <hr />;
    case "table":
      return <TableNode block={block} />;
    case "list": {
      const items = block.items.map((item, index) => (
        <li key={index}>
          {item.checked !== undefined && <span>{item.checked ? "☑ " : "☐ "}</span>}
          {item.blocks.map(keyedBlock)}
        </li>
      ));
      return block.ordered ? <ol start={block.start}>{items}</ol> : <ul>{items}</ul>;
    }
  }
}

function TableNode({ block }: { block: Extract<Block, { kind: "table" }> }) {
  return (
    <div class="scroll-x">
      <table>
        <thead>
          <tr>
            {block.head.map((cell, index) => (
              <th key={index}>
                <Inlines>{cell}</Inlines>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {block.rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column}>
                  <Inlines>{cell}</Inlines>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function keyedBlock(block: Block, index: number) {
  return <BlockNode key={index} block={block} />;
}

/** One block of source text; it is parsed again only if its text changes. */
const Source = memo(function Source({ text }: { text: string }) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return <div class="md-block">{blocks.map(keyedBlock)}</div>;
});

/** Settled blocks are never rendered again; only the tail is, with every frame. */
export function StreamedMarkdown({ settled, tail }: { settled: readonly string[]; tail: string }) {
  return (
    <div class="markdown">
      {settled.map((text, index) => (
        <Source key={index} text={text} />
      ))}
      {tail !== "" && <Source key="tail" text={tail} />}
    </div>
  );
}

export function Markdown({ text }: { text: string }) {
  return (
    <div class="markdown">
      <Source text={text} />
    </div>
  );
}
