"""`antiphon responses`: stored responses are listed, shown, drawn, deleted, exported."""

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.protocol.items import Message
from antiphon.protocol.response import IncompleteDetails, ResponseError
from antiphon.store.base import Conversation
from antiphon.store.ports import Stores
from antiphon.wiring import make_ids
from tests.cli.conftest import Run
from tests.cli.stored_responses import in_store, question, save_responses, turn


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Put the store into the environment, so that the commands need no option."""
    url = f"sqlite:{tmp_path / 'kept.db'}"
    monkeypatch.setenv("ANTIPHON_STORE__URL", url)
    return url


def ago(seconds: float) -> int:
    return int(make_ids().clock() - seconds)


def test_the_newest_come_first(run: Run, url: str) -> None:
    save_responses(
        url,
        turn("resp_1", created_at=ago(7300)),
        turn("resp_2", "resp_1", status="failed", usage=None, created_at=ago(200)),
        turn("resp_3", model="large", created_at=ago(10)),
    )
    lines = [line.split() for line in run("responses", "list").stdout.splitlines()]
    assert lines[0] == ["id", "status", "model", "tokens", "age", "continues"]
    assert lines[1][:4] == ["resp_3", "completed", "large", "12"]
    assert lines[2] == ["resp_2", "failed", "tiny", "3", "min", "resp_1"]
    assert lines[3] == ["resp_1", "completed", "tiny", "12", "2", "h"]
    assert len(run("responses", "list", "--limit", "2").stdout.splitlines()) == 3


def test_a_list_longer_than_a_page_is_complete(run: Run, url: str) -> None:
    save_responses(url, *(turn(f"resp_{n}", created_at=ago(1000 - n)) for n in range(250)))
    listed = json.loads(run("responses", "list", "--limit", "240", "--json").stdout)
    assert [response["id"] for response in listed] == [f"resp_{n}" for n in range(249, 9, -1)]


def test_a_tenant_sees_its_own_responses(run: Run, url: str) -> None:
    save_responses(url, turn("resp_1"), tenant="acme")
    assert "has no responses" in run("responses", "list").stdout
    assert "resp_1" in run("responses", "list", "--tenant", "acme").stdout
    assert run("responses", "show", "resp_1").exit_code == 2


def test_a_response_is_shown_with_its_history(run: Run, url: str) -> None:
    save_responses(
        url,
        turn("resp_1", prompt="I am Ada.", answer="Hi Ada."),
        turn("resp_2", "resp_1", prompt="Who am I?", answer="Ada.", created_at=ago(200)),
    )
    output = run("responses", "show", "resp_2").stdout
    transcript = "user\nI am Ada.\n\nassistant\nHi Ada.\n\nuser\nWho am I?\n\nassistant\nAda.\n\n"
    assert output.startswith(f"{transcript}completed  tiny\n7 tokens in, 5 out\n")
    assert output.endswith("3 min ago\ncontinues resp_1\n")


def test_why_a_response_failed_or_stopped_is_shown(run: Run, url: str) -> None:
    save_responses(
        url,
        turn("resp_1", answer=None, status="failed", error=ResponseError("server_error", "It broke.")),
        turn("resp_2", status="incomplete", incomplete_details=IncompleteDetails("max_output_tokens")),
    )
    assert "failed  tiny\nIt broke.\n" in run("responses", "show", "resp_1").stdout
    assert "incomplete  tiny\ncut off by max_output_tokens\n" in run("responses", "show", "resp_2").stdout


def test_a_response_as_json_has_its_complete_input(run: Run, url: str) -> None:
    save_responses(url, turn("resp_1"), turn("resp_2", "resp_1"))
    shown = json.loads(run("responses", "show", "resp_2", "--json").stdout)
    assert shown["response"]["id"] == "resp_2"
    assert [item["id"] for item in shown["input"]] == ["in_resp_1", "msg_resp_1", "in_resp_2"]


def test_branches_are_drawn(run: Run, url: str) -> None:
    save_responses(
        url,
        turn("resp_1", created_at=ago(7300)),
        turn("resp_2", "resp_1", created_at=ago(200)),
        turn("resp_3", "resp_1", status="failed", usage=None, created_at=ago(190)),
        turn("resp_9", created_at=ago(180)),
    )
    first = "● resp_1  completed  tiny  12 tokens  2 h"
    tree = [first, "├─● resp_3  failed  tiny  3 min", "● resp_2  completed  tiny  12 tokens  3 min"]
    assert run("responses", "tree", "resp_2").stdout.splitlines() == tree
    other = "● resp_9  completed  tiny  12 tokens  3 min"
    assert run("responses", "tree").stdout.splitlines() == [*tree, "", other]
    cut = run("responses", "tree", "--limit", "2").stdout.splitlines()
    assert cut == ["┄ its parent is not in the store", tree[1].removeprefix("├─"), "", other]


def test_a_tree_of_an_empty_store(run: Run, url: str) -> None:
    assert "has no responses" in run("responses", "tree").stdout
    result = run("responses", "tree", "resp_0")
    assert (result.exit_code, result.stderr) == (2, "Error: Response with id 'resp_0' not found.\n")


def test_a_deletion_must_be_confirmed(run: Run, url: str) -> None:
    save_responses(url, turn("resp_1"), turn("resp_2"), turn("resp_3", "resp_2"))
    refused = run("responses", "delete", "resp_1", "resp_2", input="n\n")
    assert refused.exit_code == 1
    assert "Delete 2 responses permanently?" in refused.stderr
    assert run("responses", "show", "resp_1").exit_code == 0
    done = run("responses", "delete", "resp_1", "resp_2", "resp_1", input="y\n")
    assert (done.exit_code, done.stdout) == (0, "Deleted 2 responses.\n")
    assert run("responses", "show", "resp_1").exit_code == 2
    assert "Hello?" in run("responses", "show", "resp_3").stdout


def test_a_deletion_with_an_unknown_id_deletes_nothing(run: Run, url: str) -> None:
    save_responses(url, turn("resp_1"))
    result = run("responses", "delete", "--yes", "resp_1", "resp_0")
    assert (result.exit_code, result.stderr) == (2, "Error: Response with id 'resp_0' not found.\n")
    assert run("responses", "delete", "--yes", "resp_1").stdout == "Deleted 1 response.\n"


def exported(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_export_has_every_item_once_and_parents_first(run: Run, url: str) -> None:
    save_responses(
        url, turn("resp_1"), turn("resp_2", "resp_1"), turn("resp_3", "resp_2"), turn("resp_4", "resp_1")
    )
    result = run("responses", "export")
    assert (result.exit_code, result.stderr) == (0, "Exported 4 responses.\n")
    lines = exported(result.stdout)
    assert [line["response"]["id"] for line in lines] == ["resp_1", "resp_2", "resp_3", "resp_4"]
    assert [line["continues"] for line in lines] == [None, "resp_1", "resp_2", "resp_1"]
    for line in lines:
        number = line["response"]["id"]
        assert [item["id"] for item in line["input"]] == [f"in_{number}"]
        assert [item["id"] for item in line["response"]["output"]] == [f"msg_{number}"]


def test_an_export_is_complete_after_the_deletion_of_a_parent(run: Run, url: str) -> None:
    save_responses(url, turn("resp_1"), turn("resp_2", "resp_1"))
    run("responses", "delete", "--yes", "resp_1")
    (line,) = exported(run("responses", "export").stdout)
    assert [item["id"] for item in line["input"]] == ["in_resp_1", "msg_resp_1", "in_resp_2"]


def test_an_export_contains_items_added_to_a_conversation(run: Run, url: str) -> None:
    async def converse(store: Stores) -> None:
        await store.conversations.add_conversation(
            "default", Conversation(id="conv_1", created_at=1), [question("hand", "By hand.")]
        )
        for name in ("resp_1", "resp_2"):
            await store.conversations.enter("default", "conv_1", name, 60)
            await store.responses.save("default", turn(name, conversation="conv_1"))

    in_store(url, converse)
    lines = exported(run("responses", "export").stdout)
    assert [[item["id"] for item in line["input"]] for line in lines] == [
        ["in_hand", "in_resp_1"],
        ["in_resp_2"],
    ]
    assert lines[0]["conversation"] == "conv_1"


def test_an_export_to_a_file_replaces_it_at_the_end(run: Run, url: str, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("older")
    save_responses(url, turn("resp_1"))
    result = run("responses", "export", "--output", str(target))
    assert (result.exit_code, result.stdout) == (0, "")
    assert exported(target.read_text())[0]["response"]["id"] == "resp_1"
    assert list(tmp_path.glob("*.part")) == []


def test_an_export_to_an_invalid_path_is_one_line(run: Run, url: str, tmp_path: Path) -> None:
    save_responses(url, turn("resp_1"))
    result = run("responses", "export", "--output", str(tmp_path / "no" / "out.jsonl"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: No such file or directory")


def test_unusual_strings_survive(run: Run, url: str) -> None:
    odd = "[bold]\x1b[2J\u2028 \x00 ä"
    save_responses(url, turn("resp_1", prompt=odd))
    (line,) = run("responses", "export").stdout.split("\n")[:-1]
    message = json.loads(line)["input"][0]
    assert message["content"][0]["text"] == odd
    assert "[bold][2J" in run("responses", "show", "resp_1").stdout
    assert isinstance(turn("x").input[0], Message)
