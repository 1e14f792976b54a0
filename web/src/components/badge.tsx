const KINDS: Readonly<Record<string, string>> = {
  completed: "good",
  in_progress: "busy",
  queued: "busy",
  incomplete: "warn",
  cancelled: "warn",
  failed: "bad",
};

export function StatusBadge({ status }: { status: string }) {
  return <span class={`badge ${KINDS[status] ?? ""}`}>{status.replaceAll("_", " ")}</span>;
}
