/** `GET /v1/responses/{id}/chain`. */
export interface Chain {
  readonly root: string;
  readonly conversation: string | null;
  readonly truncated: boolean;
  readonly nodes: readonly ChainNode[];
}

export interface ChainNode {
  readonly id: string;
  readonly parent: string | null;
  readonly status: string;
  readonly model: string;
  readonly created_at: number;
  readonly input_tokens: number | null;
  readonly output_tokens: number | null;
  readonly total_ms: number | null;
  readonly compaction: boolean;
  readonly input_preview: string | null;
  readonly output_preview: string | null;
}

export interface ChainRow {
  readonly node: ChainNode;
  /** How many forks lie above: a chain without forks is not indented. */
  readonly depth: number;
  /** How many responses continue this one. */
  readonly children: number;
  /** The first response of a branch, if there is more than one branch. */
  readonly startsBranch: boolean;
  /** The lines before it, two characters for each fork above; deep forks are drawn at the same depth. */
  readonly lines: string;
}

const MAX_DRAWN_DEPTH = 12;

/** The lines before the first response of a branch, and before those below it. */
function branchLines(before: string, isLast: boolean): { readonly lines: string; readonly below: string } {
  const drawn = before.slice(0, 2 * (MAX_DRAWN_DEPTH - 1));
  return { lines: drawn + (isLast ? "└─" : "├─"), below: drawn + (isLast ? "  " : "│ ") };
}

/** The tree as rows: a node before its branches, the oldest branch first. */
export function rowsOf(nodes: readonly ChainNode[]): ChainRow[] {
  const known = new Set(nodes.map(({ id }) => id));
  const children = new Map<string | null, ChainNode[]>();
  for (const node of nodes) {
    const parent = node.parent !== null && known.has(node.parent) ? node.parent : null;
    const list = children.get(parent);
    if (list === undefined) children.set(parent, [node]);
    else list.push(node);
  }
  for (const list of children.values()) list.sort((a, b) => a.created_at - b.created_at);
  const rows: ChainRow[] = [];
  // A stack and no recursion: a chain may be 2,000 responses long.
  const roots = children.get(null) ?? [];
  const start = { depth: 0, startsBranch: roots.length > 1, lines: "", below: "" };
  const waiting = roots.map((node) => ({ node, ...start })).reverse();
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { below: before, ...row } = next;
    const following = children.get(row.node.id) ?? [];
    rows.push({ ...row, children: following.length });
    const forks = following.length > 1;
    const depth = row.depth + (forks ? 1 : 0);
    for (const node of following.toReversed()) {
      const lines = forks ? branchLines(before, node === following.at(-1)) : { lines: before, below: before };
      waiting.push({ node, depth, startsBranch: forks, ...lines });
    }
  }
  return rows;
}

/** The responses from the root to this one. */
export function pathTo(nodes: readonly ChainNode[], id: string): ChainNode[] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const path: ChainNode[] = [];
  for (
    let node = byId.get(id);
    node !== undefined;
    node = node.parent === null ? undefined : byId.get(node.parent)
  ) {
    path.unshift(node);
    if (path.length > nodes.length) break;
  }
  return path;
}
