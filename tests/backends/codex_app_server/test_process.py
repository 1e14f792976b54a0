"""Which of a program's last words tell why it ended."""

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
    ("said", "cause"),
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
def test_the_line_that_looks_like_an_error_is_preferred(said: bytes, cause: str) -> None:
    words = ErrorOutput()
    for at in range(0, len(said), 7):
        words.feed(said[at : at + 7])
    assert words.cause() == cause


def test_what_was_forgotten_is_not_the_cause() -> None:
    words = ErrorOutput()
    words.feed(b"Error: harmless\nand the beg")
    words.clear()
    assert words.cause() == "no reason was given"


def test_endless_words_are_not_kept() -> None:
    words = ErrorOutput()
    for _ in range(100):
        words.feed(b"x" * 100_000)
    assert len(words.cause()) <= 500
