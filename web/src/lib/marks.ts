/**
 * The members of the client's request that were emulated, changed or left out, with what is said about each.
 *
 * A downgrade is a sentence that begins with its subject: `tools[0].type: shown to the model as a function`.
 */
export function marksOf(downgrades: readonly unknown[]): Record<string, string> {
  const marks: Record<string, string> = {};
  for (const downgrade of downgrades) {
    if (typeof downgrade !== "string") continue;
    const [, path, said] = /^([\w.[\]]+): (.+)$/s.exec(downgrade) ?? [];
    if (path !== undefined && said !== undefined) marks[dotted(path)] = said;
  }
  return marks;
}

/** `tools[0].type` as `tools.0.type`. */
function dotted(path: string): string {
  return path.replace(/\[(\d+)\]/g, ".$1");
}
