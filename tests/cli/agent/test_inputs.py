"""TASK.toml: accepted keys and rejections."""

import hashlib
import json
from pathlib import Path

import pytest

from antiphon.cli.agent.inputs import KNOWN_KEYS, read_task, task_of
from antiphon.cli.failure import WrongUsage
from antiphon.errors import InvalidRequest


def write(text: str, name: str = "task.toml") -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_a_task_has_the_fields_of_a_request_in_snake_case() -> None:
    task = read_task(
        write(
            'title = "T"\nmode = "general"\ninstruction = "Do it"\nsystem_prompt = "Be brief."\nrepo = "r"\n'
        )
    )
    assert task.title == "T"
    request = task.request
    assert (request.mode, request.instruction) == ("general", "Do it")
    assert (request.system_prompt, request.repo) == ("Be brief.", "r")
    assert "title" not in task.body


def test_paths_begin_at_the_folder_of_the_task() -> None:
    write("Find the leak.\n", "work/what.md")
    write("x = 1\n", "work/src/pool.py")
    write('{"type": "function", "name": "one", "parameters": {}}', "work/one.json")
    write('[{"type": "function", "name": "two", "parameters": {}}]', "work/two.json")
    task = read_task(
        write(
            'instruction_file = "what.md"\nfiles = ["src/pool.py"]\ntools = ["one.json", "two.json"]\n',
            "work/task.toml",
        )
    )
    assert task.request.instruction == "Find the leak.\n"
    [file] = task.request.active_files
    assert (file.relative_path, file.file_name, file.language) == ("src/pool.py", "pool.py", "python")
    assert (file.contents, file.sha256_hash) == ("x = 1\n", hashlib.sha256(b"x = 1\n").hexdigest())
    assert [tool["name"] for tool in json.loads(task.request.tools_json or "")] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("instruction =", "not valid TOML"),
        ('instruction = "x"\nInstruction = "x"', "unknown keys: Instruction"),
        ('instruction = "x"\nmodel = "m"', "unknown keys: model"),
        ('instruction = "x"\ninstruction_file = "what.md"', "'instruction' twice"),
        ('instruction = "x"\nfiles = []\nactive_files = []', "'active_files' twice"),
        ('instruction = "x"\ntools = "t.json"', "'tools' must be a list of paths"),
        ('instruction = "x"\nfiles = [5]', "'files' must be a list of paths"),
        ("instruction_file = 5", "'instruction_file' must be a path"),
        ('instruction_file = "nowhere.md"', "nowhere.md"),
        ('instruction = "x"\ntitle = 5', "'title' must be a string"),
        ('instruction = "x"\nfiles = ["../outside.py"]', "is not below"),
        ('instruction = "x"\ntools = ["what.md"]', "not valid JSON"),
    ],
)
def test_an_invalid_task_is_rejected(text: str, complaint: str) -> None:
    write("x", "what.md")
    write("x", "../outside.py")
    with pytest.raises(WrongUsage, match=complaint):
        read_task(write(text))


def test_the_known_keys_are_listed() -> None:
    with pytest.raises(WrongUsage) as refused:
        task_of({"instructions": "x"}, Path.cwd())
    assert all(key in refused.value.message for key in KNOWN_KEYS)


@pytest.mark.parametrize(
    ("text", "param"),
    [
        ("mode = 5\ninstruction = 'x'", "mode"),
        ("title = 'x'", "instruction"),
        ("streaming = 'x'", "streaming"),
    ],
)
def test_a_malformed_field_is_reported(text: str, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_task(write(text))
    assert refused.value.param == param


def test_a_task_that_cannot_be_read_is_wrong_usage() -> None:
    with pytest.raises(WrongUsage, match=r"nowhere\.toml"):
        read_task("nowhere.toml")
