import type { View } from "./components/view.ts";

export interface ViewEntry {
  readonly name: string;
  readonly title: string;
  /** Pressed after `g`. */
  readonly key: string;
  readonly load: () => Promise<{ default: View }>;
}

export const VIEWS: readonly ViewEntry[] = [
  { name: "playground", title: "Playground", key: "p", load: () => import("./views/playground/index.tsx") },
  { name: "responses", title: "Responses", key: "r", load: () => import("./views/responses/index.tsx") },
  { name: "chains", title: "Chains", key: "c", load: () => import("./views/chains/index.tsx") },
  { name: "runs", title: "Runs", key: "a", load: () => import("./views/runs/index.tsx") },
  { name: "files", title: "Files", key: "f", load: () => import("./views/files/index.tsx") },
  { name: "stores", title: "Vector stores", key: "v", load: () => import("./views/stores/index.tsx") },
  { name: "models", title: "Models", key: "m", load: () => import("./views/models/index.tsx") },
  { name: "usage", title: "Usage", key: "u", load: () => import("./views/usage/index.tsx") },
  { name: "keys", title: "Keys", key: "k", load: () => import("./views/keys/index.tsx") },
  { name: "settings", title: "Settings", key: "s", load: () => import("./views/settings/index.tsx") },
];

/** The view of an address; the first one if the address names none. */
export function viewNamed(name = "playground"): ViewEntry | undefined {
  return VIEWS.find((view) => view.name === name);
}
