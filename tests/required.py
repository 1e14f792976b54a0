"""What some tests need of the machine. Where it is missing they are skipped, and fail where it is required: a
variable, which CI sets, says so."""

import os
from typing import NoReturn

import pytest

SANDBOX_REQUIRED = "SANDBOX_REQUIRED"
PAGE_REQUIRED = "PAGE_REQUIRED"
CLOCK_REQUIRED = "CLOCK_REQUIRED"


def skip_unless_required(variable: str, reason: str) -> NoReturn:
    """Skip the test, or fail if the variable is set."""
    if os.environ.get(variable):
        pytest.fail(f"{reason} ({variable} is set, so this test must run)", pytrace=False)
    pytest.skip(reason)
