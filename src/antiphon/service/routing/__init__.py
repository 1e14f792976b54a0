"""Which backend serves a turn: names, routes, circuits, limits, attempts, and what each model can do."""
