import type { ViewProps } from "../../components/view.ts";
import { Detail } from "./detail.tsx";
import { List } from "./list.tsx";

export default function Responses({ path, query }: ViewProps) {
  const [id] = path;
  return id === undefined ? <List query={query} /> : <Detail key={id} id={id} tab={query.tab ?? "items"} />;
}
