import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

export interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** On the side, as high as the window. */
  readonly drawer?: boolean;
}

/** A modal dialog. The browser's own element holds the focus inside and closes on Escape. */
export function Dialog({ title, onClose, children, drawer = false }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  // Before the next key is pressed: whoever types at once types into the dialog.
  useLayoutEffect(() => {
    element.current?.showModal();
    // The browser would focus the button that closes.
    element.current?.querySelector<HTMLElement>("input, select, textarea")?.focus();
  }, []);
  return (
    <dialog
      ref={element}
      class={drawer ? "drawer" : undefined}
      aria-labelledby={titleId}
      onClose={onClose}
      onKeyDown={(event) => event.stopPropagation()}
      onClick={(event) => {
        if (event.target === element.current) element.current?.close();
      }}
    >
      <div class="dialog-body">
        <header>
          <h2 id={titleId}>{title}</h2>
          <button type="button" class="icon" aria-label="Close" onClick={() => element.current?.close()}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

export interface ConfirmProps {
  readonly title: string;
  readonly action: string;
  readonly children: ComponentChildren;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, action, children, onConfirm, onClose }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <div>{children}</div>
      <div class="row end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          class="action danger"
          onClick={() => {
            onConfirm();
            onClose();
          }}
        >
          {action}
        </button>
      </div>
    </Dialog>
  );
}
