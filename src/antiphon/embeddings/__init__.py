"""Embeddings: texts become vectors that are near each other if their meanings are.

`base` is the port. `local` runs the bundled model in this process, `upstream` calls a server that has
``/v1/embeddings``, `hashed` computes vectors without a model, for tests.
"""
