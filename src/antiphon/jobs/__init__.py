"""Jobs: durable work in the background. Only this package claims work and takes it over."""
