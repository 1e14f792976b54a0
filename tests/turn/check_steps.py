"""Runs the checks that a function of the core asks for, in the process of the test."""

from typing import TypeVar

from antiphon.turn.checks import CheckSteps, run_check

T = TypeVar("T")


def run_here(steps: CheckSteps[T]) -> T:
    """The result of a function that needs checks."""
    try:
        checks = next(steps)
        while True:
            checks = steps.send([run_check(check) for check in checks])
    except StopIteration as end:
        return end.value
