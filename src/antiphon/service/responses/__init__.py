"""One response in three steps: its context, the run of its rounds, and the end that saves and sends it."""
