const MONTH_DAY = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});

export function moment(seconds: number | null | undefined): string {
  return seconds == null ? "–" : MONTH_DAY.format(seconds * 1000);
}

export function age(seconds: number, now: number = Date.now() / 1000): string {
  const passed = Math.max(0, now - seconds);
  if (passed < 60) return `${Math.round(passed)} s ago`;
  if (passed < 3600) return `${Math.round(passed / 60)} min ago`;
  if (passed < 86_400) return `${Math.round(passed / 3600)} h ago`;
  return moment(seconds);
}

export function score(value: number | null | undefined): string {
  return value == null ? "–" : value.toFixed(3);
}
