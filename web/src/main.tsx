import { render } from "preact";
import "./styles/base.css";
import "./styles/components.css";
import "./styles/operations.css";
import "./styles/items.css";
import "./styles/playground.css";
import "./styles/inspect.css";
import { Shell } from "./components/shell.tsx";
import { ErrorState } from "./components/states.tsx";
import { loadSession } from "./lib/api.ts";
import { listenToFragment, place } from "./lib/router.ts";
import { applyTheme } from "./lib/theme.ts";
import { viewNamed } from "./views.ts";

function start(): void {
  const root = document.getElementById("app");
  if (root === null) return;
  applyTheme();
  listenToFragment();
  // While the server answers. If it fails, the view says so when it is shown.
  viewNamed(place.value.path[0])
    ?.load()
    .catch(() => undefined);
  const show = () => {
    loadSession().then(
      () => render(<Shell />, root),
      (error: unknown) => render(<ErrorState error={error} retry={show} />, root),
    );
  };
  show();
}

start();
