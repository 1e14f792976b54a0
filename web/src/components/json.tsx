import { useState } from "preact/hooks";
import { count } from "../lib/format.ts";
import { LongText } from "./plain-text.tsx";

const FIRST_CHILDREN = 100;
const MORE_CHILDREN = 500;
const SHOWN_CHARS = 2_000;

export interface JsonProps {
  readonly value: unknown;
  /** How many levels are open at first. */
  readonly depth?: number;
  /** Marked paths, dotted, with what is said about them: `tools.0.type`. */
  readonly marks?: Readonly<Record<string, string>>;
  /** The member of the value that is closed at first, except for what is marked in it. */
  readonly folded?: string;
}

/**
 * JSON as a tree. What is closed is not in the document, so that a value of any size opens at once. What leads to
 * a mark is open at any depth.
 */
export function JsonTree({ value, depth = 2, marks = {}, folded }: JsonProps) {
  return (
    <div class="json mono">
      <Node name={undefined} value={value} depth={depth} path="" marks={marks} folded={folded} />
    </div>
  );
}

interface NodeProps {
  readonly name: string | undefined;
  readonly value: unknown;
  readonly depth: number;
  readonly path: string;
  readonly marks: Readonly<Record<string, string>>;
  readonly folded: string | undefined;
}

function Node(props: NodeProps) {
  const { name, value, path, marks } = props;
  const mark = marks[path];
  if (value !== null && typeof value === "object") return <Branch {...props} value={value} />;
  return (
    <div class={`json-line${mark === undefined ? "" : " marked"}`} title={mark}>
      <Name name={name} />
      {typeof value === "string" ? (
        <span class="json-string">
          "<LongText text={value} first={SHOWN_CHARS} />"
        </span>
      ) : (
        <span class="json-literal">{String(value)}</span>
      )}
    </div>
  );
}

function Name({ name }: { name: string | undefined }) {
  return name === undefined ? null : (
    <span class="json-name">
      <LongText text={name} first={SHOWN_CHARS} />:{" "}
    </span>
  );
}

function leadsToMark(path: string, marks: Readonly<Record<string, string>>): boolean {
  return Object.keys(marks).some((marked) => marked.startsWith(`${path}.`));
}

function Branch({ name, value, depth: allowed, path, marks, folded }: NodeProps & { value: object }) {
  const depth = path === folded ? 0 : allowed;
  const [open, setOpen] = useState(depth > 0 || leadsToMark(path, marks));
  const [shown, setShown] = useState(FIRST_CHILDREN);
  const entries = open ? Object.entries(value) : [];
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  const [before, after] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const mark = marks[path];
  if (size === 0) {
    return (
      <div class={`json-line${mark === undefined ? "" : " marked"}`} title={mark}>
        <Name name={name} />
        {before}
        {after}
      </div>
    );
  }
  return (
    <div class={`json-branch${mark === undefined ? "" : " marked"}`} title={mark}>
      <button type="button" class="json-toggle" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span aria-hidden="true">{open ? "▾" : "▸"}</span> <Name name={name} />
        {before}
        {!open && (
          <span class="muted">
            {" "}
            {count(size)} {after}
          </span>
        )}
      </button>
      {open && (
        <div class="json-children">
          {entries.slice(0, shown).map(([key, child]) => (
            <Node
              key={key}
              name={Array.isArray(value) ? undefined : key}
              value={child}
              depth={depth - 1}
              path={path === "" ? key : `${path}.${key}`}
              marks={marks}
              folded={folded}
            />
          ))}
          {entries.length > shown && (
            <button type="button" class="link" onClick={() => setShown(shown + MORE_CHILDREN)}>
              Show more ({count(entries.length - shown)})
            </button>
          )}
        </div>
      )}
      {open && <div>{after}</div>}
    </div>
  );
}
