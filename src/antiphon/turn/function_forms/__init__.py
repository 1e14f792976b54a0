"""Function forms: every tool that a client runs, with its calls and outputs, shown as a function.

A backend that takes only functions sees nothing else. The translation goes both ways: what a model writes for
the function becomes an item of the tool's own kind again.
"""
