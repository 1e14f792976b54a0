import { computed, signal } from "@preact/signals";

/** A place in the page: `#/responses/resp_1?tab=events`. */
export interface Place {
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

export function parsePlace(fragment: string): Place {
  const [path = "", query = ""] = fragment.replace(/^#?\/?/, "").split("?", 2);
  return {
    path: path.split("/").filter(Boolean).map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function placeTo(
  path: readonly string[],
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) params.set(name, value);
  const text = params.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

const fragment = signal(globalThis.location?.hash ?? "");
export const place = computed(() => parsePlace(fragment.value));

export function listenToFragment(): void {
  addEventListener("hashchange", () => {
    fragment.value = location.hash;
  });
}

export function go(path: readonly string[], query: Readonly<Record<string, string | undefined>> = {}): void {
  location.hash = placeTo(path, query);
}

/** Changes the query of the current place without a new entry in the browser's history. */
export function setQuery(changes: Readonly<Record<string, string | undefined>>): void {
  const target = placeTo(place.value.path, { ...place.value.query, ...changes });
  history.replaceState(null, "", target);
  fragment.value = target;
}
