"""`antiphon codex`: Codex CLI on any model."""
