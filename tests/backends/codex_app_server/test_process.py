"""Which line of a program's error output is reported as the cause of its end."""

import pytest

from antiphon.backends.codex_app_server.process import ErrorOutput

NODE = b"""/opt/codex.js:92
      throw new Error(
      ^

Error: Missing optional dependency. Reinstall it.
    at file:///opt/codex.js:92:9
    at ModuleJob.run (node:internal/modules/esm/module_job:430:25)
    at async onImport (node:internal/modules/esm/loader:661:26)
    at async asyncRun (node:internal/modules/run_main:117:5)

Node.js v22.1.0
"""


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (NODE, "Error: Missing optional dependency. Reinstall it."),
        (b"error: no such option\n\nUsage: codex\n", "error: no such option"),
        (b"2026-01-01 \x1b[31mERROR\x1b[0m core: no key\nbye\n", "2026-01-01 ERROR core: no key"),
        (b"out of luck\nnote: run with `RUST_BACKTRACE=1`\n", "out of luck"),
        (b"first\nlast, without its end", "last, without its end"),
        (b"    at here\n", "at here"),
        (b"Error: token=abcdef123456\n", "Error: token=[redacted]"),
        (b"", "no reason was given"),
    ],
)
def test_the_line_that_looks_like_an_error_is_preferred(output: bytes, cause: str) -> None:
    errors = ErrorOutput()
    for at in range(0, len(output), 7):
        errors.feed(output[at : at + 7])
    assert errors.cause() == cause


def test_cleared_output_is_not_the_cause() -> None:
    errors = ErrorOutput()
    errors.feed(b"Error: harmless\nand the beg")
    errors.clear()
    assert errors.cause() == "no reason was given"


def test_endless_error_output_is_bounded() -> None:
    errors = ErrorOutput()
    for _ in range(100):
        errors.feed(b"x" * 100_000)
    assert len(errors.cause()) <= 500
