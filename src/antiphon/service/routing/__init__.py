"""The backend of a turn: names, routes, circuits, limits, attempts, and capabilities of models."""
