import { useEffect, useRef, useState } from "preact/hooks";
import { signIn } from "../lib/api.ts";
import { ErrorState } from "./states.tsx";

export function SignInForm({ expired = false }: { expired?: boolean }) {
  const [apiKey, setApiKey] = useState("");
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(apiKey.trim());
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="sign-in" onSubmit={submit}>
      <p class="muted">
        {expired
          ? "Your session has expired. Sign in again: the page goes on where it was."
          : "This server asks for a key: “antiphon keys create” makes one. You see what its tenant and scopes allow."}
      </p>
      <label>
        API key
        <input
          ref={field}
          type="password"
          autocomplete="current-password"
          value={apiKey}
          required
          onInput={(event) => setApiKey(event.currentTarget.value)}
        />
      </label>
      {error !== undefined && <ErrorState error={error} />}
      <button type="submit" class="action primary" disabled={busy}>
        Sign in
      </button>
    </form>
  );
}
