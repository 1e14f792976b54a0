"""`antiphon ask` and `antiphon chat`: questions to a model."""
