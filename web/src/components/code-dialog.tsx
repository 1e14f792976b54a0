import { useState } from "preact/hooks";
import { LANGUAGES, type Language, programFor } from "../lib/program.ts";
import { CopyButton } from "./buttons.tsx";
import { Dialog } from "./dialog.tsx";
import { Pre } from "./plain-text.tsx";

export interface CodeDialogProps {
  readonly body: object;
  readonly headers: Readonly<Record<string, string>>;
  readonly onClose: () => void;
}

/** A request as a program in one of the languages. */
export function CodeDialog({ body, headers, onClose }: CodeDialogProps) {
  const [language, setLanguage] = useState<Language>("curl");
  const program = programFor(language, body, headers, location.origin);
  return (
    <Dialog title="Copy as code" drawer onClose={onClose}>
      <div class="row">
        {LANGUAGES.map((name) => (
          <button key={name} type="button" aria-pressed={name === language} onClick={() => setLanguage(name)}>
            {name}
          </button>
        ))}
        <CopyButton text={program} label="Copy the program" />
      </div>
      <Pre text={program} />
    </Dialog>
  );
}
