"""Fuzzing of the document parsers, in the child processes in which they run."""
