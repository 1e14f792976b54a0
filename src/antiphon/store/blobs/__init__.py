"""Blob stores: the content of files as objects under keys."""
