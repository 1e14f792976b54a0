"""`antiphon files`."""
