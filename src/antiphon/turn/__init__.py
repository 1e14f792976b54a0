"""The core, sans-IO: chunks in, numbered events out."""
