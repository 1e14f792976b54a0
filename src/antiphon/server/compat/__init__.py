"""Compatible endpoints for clients of other APIs: each body becomes a `CreateResponse` of the same engine."""
