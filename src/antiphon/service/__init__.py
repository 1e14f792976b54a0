"""Use cases: where protocol, core, backends and store meet."""
