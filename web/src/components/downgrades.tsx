import { Text } from "./plain-text.tsx";

/** What was emulated, changed or left out: one sentence each. */
export function Downgrades({ downgrades }: { downgrades: readonly unknown[] }) {
  if (downgrades.length === 0) return null;
  return (
    <ul class="notice downgrades" aria-label="What was emulated, changed or left out">
      {downgrades.map((downgrade, index) => (
        <li key={index}>
          <Text text={typeof downgrade === "string" ? downgrade : JSON.stringify(downgrade)} />
        </li>
      ))}
    </ul>
  );
}
