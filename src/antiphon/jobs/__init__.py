"""Jobs: durable work in the background. Only this package knows how work is claimed and taken over."""
