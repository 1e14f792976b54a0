import { setQuery } from "../lib/router.ts";

/** Tabs whose choice is in the address, so that it can be shared. */
export function Tabs({ tabs, current }: { tabs: readonly (readonly [string, string])[]; current: string }) {
  return (
    <div class="tabs" role="tablist">
      {tabs.map(([name, title]) => (
        <button
          key={name}
          type="button"
          role="tab"
          aria-selected={name === current}
          onClick={() => setQuery({ tab: name === tabs[0]?.[0] ? undefined : name })}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
