"""Function forms: every tool that a client runs, with its calls and outputs, shown as a function.

A backend that takes only functions sees nothing else. The translation works in both directions: the arguments
that a model writes for the function become an item of the tool's own kind.
"""
