"""Guises: every tool a client can run, and its calls and outputs, in the form of functions.

A backend that knows functions only meets nothing else. A guise says the same in another form, both ways:
what a model writes for the function becomes the item of the tool's own kind again.
"""
