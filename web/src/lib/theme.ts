import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const STORED_AS = "antiphon-theme";

function stored(): Theme {
  const value = globalThis.localStorage?.getItem(STORED_AS);
  return value === "light" || value === "dark" ? value : "system";
}

export const theme = signal<Theme>(stored());

export function applyTheme(): void {
  theme.subscribe((value) => {
    if (value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = value;
    localStorage.setItem(STORED_AS, value);
  });
}
