"""Invalid settings are reported with file, line, key and the nearest valid name."""

import json
from pathlib import Path

import pytest

from antiphon.errors import SettingsError
from antiphon.settings import load_settings
from antiphon.settings.toml_lines import find_line

MODES = """[agent.modes.one]
when_to_use = "a"
[agent.modes."two words"]
"""
STRINGS = """[[upstreams]]
base_url = "http://a/v1"
headers = {a = "]"} # [[upstreams]]
[[upstreams]]
name = '''
[[upstreams]]
bas_url = 1'''
models = [
  "a", # ]
  {name = "b"},
]
'bas_url' = "http://b/v1"
"""


def refusal(path: Path | None, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings(path, environment or {})
    return refused.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nservr = 1\n", "2: servr: unknown; did you mean server?"),
        ("port = 1", "1: port: unknown here; did you mean [server].port?"),
        ("[server]\n\n# port\nprot = 1", "4: [server].prot: unknown; did you mean port?"),
        ("server.prot = 1", "1: [server].prot: unknown; did you mean port?"),
        ("server = {prot = 1}", "1: [server].prot: unknown; did you mean port?"),
        ("[server]\nport = 'x'", "2: [server].port: expected `int`, got `str`."),
        ("[health]\nxyz = 1", "2: [health].xyz: unknown; valid: failures, pause."),
        (STRINGS, "12: [[upstreams]].bas_url: unknown; did you mean base_url?"),
        (
            "[[upstreams]]\nmodels = [\n'a',\n{nam = 'b'}]",
            "2: [[upstreams]].models[1].nam: unknown; did you mean name?",
        ),
        (
            "[server]\nprofile = 'opnai'",
            "2: [server].profile: invalid enum value 'opnai'; valid: maestro, openai, proxy.",
        ),
        (
            "[profiles.proxy]\n[profiles.nobody]\n",
            "2: [profiles].nobody: invalid enum value 'nobody'; valid: maestro, openai, proxy.",
        ),
        ("[fallbacks]\na = ['b']\nc = 'd'", "3: [fallbacks].c: expected `array`, got `str`."),
        (
            MODES,
            "3: [agent].modes.two words: object missing required field `when_to_use`.",
        ),
        (
            MODES + "when_to_use = 'b'\ntool = []",
            "5: [agent].modes.two words.tool: unknown; did you mean tools?",
        ),
    ],
)
def test_the_line_and_the_nearest_name_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(text)
    assert refusal(path) == f"{path}:{message}"


def test_a_variable_is_named_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text("[server]\nport = 1\n")
    assert refusal(path, {"ANTIPHON_SERVER__PORT": "x"}) == (
        "ANTIPHON_SERVER__PORT: [server].port: expected `int`, got `str`."
    )
    assert refusal(None, {"ANTIPHON_UPSTREAMS": json.dumps([{"bas_url": ""}])}) == (
        "ANTIPHON_UPSTREAMS: [[upstreams]].bas_url: unknown; did you mean base_url?"
    )


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text("[server]\nport =\n")
    assert "line 2" in refusal(path)


def test_keys_inside_of_values_are_not_keys_of_the_file() -> None:
    """A nested value that ends does not end the value around it."""
    text = 'a = [\n  [1],\n  {b = 1},\n  """b = 2""",\n]\nb = 3\nc = [[1], [2]]\nd = 4\n'
    assert [find_line(text, (name,)) for name in "abcd"] == [1, 6, 7, 8]
    nested = "a = [\n  [1],\n  [\n    2\n],\n{\nb = 5 }, ]\nb = 3\n"
    assert find_line(nested, ("b",)) == 8
