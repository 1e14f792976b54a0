import type { Item, ResponseObject } from "../../lib/types.ts";

interface OldCall {
  readonly call: Item;
  /** The id of the call that the replayed model made in its place, if it made one. */
  readonly replayedId: string | undefined;
}

function isCall({ type, call_id }: Item): boolean {
  return type.endsWith("_call") && call_id !== undefined;
}

/** The calls of an answer by type and name: `function_call get_weather`. */
function callsByName(output: readonly Item[]): Map<string, Item[]> {
  const found = new Map<string, Item[]>();
  for (const item of output.filter(isCall)) {
    const name = `${item.type} ${item.name ?? ""}`;
    found.set(name, [...(found.get(name) ?? []), item]);
  }
  return found;
}

/**
 * The calls of a branch that is replayed. The replayed model gives its calls other ids, and may make other calls or
 * none, while the inputs of the branch contain the outputs of the old ones.
 */
export class ReplayedCalls {
  readonly #old = new Map<string, OldCall>();
  readonly #used = new Set<string>();

  /** Notes an answer and its replay: the n-th call of a name takes the place of the n-th call of that name. */
  add(before: ResponseObject, after: ResponseObject): void {
    const replayed = callsByName(after.output);
    for (const items of replayed.values()) for (const { call_id = "" } of items) this.#used.add(call_id);
    for (const [name, calls] of callsByName(before.output)) {
      for (const [index, call] of calls.entries())
        this.#old.set(call.call_id ?? "", { call, replayedId: replayed.get(name)?.[index]?.call_id });
    }
  }

  /** The input of the next response, with each output referring to a call that the replayed branch has. */
  answered(input: readonly Item[]): Item[] {
    const own = new Set(input.filter(isCall).map(({ call_id }) => call_id));
    return input.flatMap((item) => {
      const { type, call_id = "" } = item;
      const old = type.endsWith("_output") && !own.has(call_id) ? this.#old.get(call_id) : undefined;
      if (old === undefined) return [item];
      if (old.replayedId !== undefined) return [{ ...item, call_id: old.replayedId }];
      const kept = this.#unused(call_id);
      return [
        { ...old.call, call_id: kept },
        { ...item, call_id: kept },
      ];
    });
  }

  /** An id that no call of the replayed branch has: some models count their calls from 1 in every answer. */
  #unused(id: string): string {
    let unused = id;
    while (this.#used.has(unused)) unused += "_before";
    this.#used.add(unused);
    return unused;
  }
}
