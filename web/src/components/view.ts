import type { ComponentType } from "preact";

/** What a view gets: the parts of the place behind its own name, and the query. */
export interface ViewProps {
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

/** The default export of `views/<name>/index.tsx`. */
export type View = ComponentType<ViewProps>;
