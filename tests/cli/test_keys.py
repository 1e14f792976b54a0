"""`antiphon keys`: create, list, revoke; the secret is shown once."""

import json
from pathlib import Path

import pytest

from antiphon.server.auth import Keys
from antiphon.settings import load_settings
from antiphon.store.ports import Stores
from antiphon.wiring import key_pepper, make_ids
from tests.cli.conftest import Run
from tests.cli.stored_responses import in_store


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Put the store into the environment, so that the commands need no option."""
    url = f"sqlite:{tmp_path / 'kept.db'}"
    monkeypatch.setenv("ANTIPHON_STORE__URL", url)
    return url


def known(url: str) -> Keys:
    """The keys as a server reads them."""
    keys = Keys((), pepper=key_pepper(load_settings()), clock=make_ids().clock)

    async def refresh(store: Stores) -> None:
        await keys.refresh(store.keys)

    in_store(url, refresh)
    return keys


def test_a_new_key_is_the_only_standard_output_and_is_accepted_by_the_server(run: Run, url: str) -> None:
    result = run("keys", "create", "--tenant", "acme", "--scope", "responses:read", "--expires", "90d")
    assert result.exit_code == 0
    key = result.stdout.strip()
    assert result.stdout == f"{key}\n"
    assert key.startswith("ap_")
    assert "tenant acme (responses:read) is valid until 2" in result.stderr
    assert key.split("_")[2] not in result.stderr
    caller = known(url).check(f"Bearer {key}".encode())
    assert (caller.tenant, caller.scopes) == ("acme", {"responses:read"})


@pytest.mark.parametrize(
    ("given", "stored", "shown"),
    [
        (["file_search", "mcp:notes"], {"file_search", "mcp:notes"}, "tools: file_search, mcp:notes"),
        (["none"], set[str](), "tools: none"),
    ],
)
def test_a_key_can_be_limited_to_hosted_tools(
    run: Run, url: str, given: list[str], stored: set[str], shown: str
) -> None:
    result = run("keys", "create", *(word for tool in given for word in ("--tool", tool)))
    assert shown in result.stderr
    assert known(url).check(f"Bearer {result.stdout.strip()}".encode()).tools == stored
    assert shown in run("keys", "list").stdout


def test_a_tool_that_cannot_exist_is_rejected(run: Run, url: str) -> None:
    result = run("keys", "create", "--tool", "file search")
    assert result.exit_code != 0
    assert "'file search' is not a hosted tool" in result.stderr
    assert json.loads(run("keys", "list", "--json").stdout) == []


def test_the_list_shows_everything_but_the_secret(run: Run, url: str) -> None:
    laptop, ci = (run("keys", "create", "--name", name).stdout.strip() for name in ("laptop", "ci [x]"))
    brief = run("keys", "create", "--scope", "responses:write", "--expires", "2w").stdout.strip()
    run("keys", "revoke", ci.split("_")[1])
    output = run("keys", "list").stdout
    heading, *lines = (line.rstrip() for line in output.splitlines())
    rows = {line.split()[0]: line for line in lines}
    assert heading.split() == ["id", "name", "tenant", "scopes", "age", "state"]
    assert rows[laptop.split("_")[1]].split()[1:4] == ["laptop", "default", "all"]
    assert rows[laptop.split("_")[1]].endswith(" valid")
    assert "ci [x]" in rows[ci.split("_")[1]]
    assert rows[ci.split("_")[1]].endswith(" revoked")
    assert "responses:write" in rows[brief.split("_")[1]]
    assert rows[brief.split("_")[1]].endswith(" valid for 13 d")
    assert not any(key.split("_")[2] in output for key in (laptop, ci, brief))


def test_the_list_as_json_has_no_digest(run: Run, url: str) -> None:
    run("keys", "create", "--name", "laptop")
    (row,) = json.loads(run("keys", "list", "--json").stdout)
    assert (row["name"], row["state"], row["expires_at"]) == ("laptop", "valid", None)
    assert "digest" not in row


def test_without_keys_the_list_advises_how_to_create_one(run: Run, url: str) -> None:
    assert "antiphon keys create" in run("keys", "list").stdout
    assert json.loads(run("keys", "list", "--json").stdout) == []


def test_a_revoked_key_is_rejected(run: Run, url: str) -> None:
    key = run("keys", "create").stdout.strip()
    key_id = key.split("_")[1]
    result = run("keys", "revoke", key_id)
    assert (result.exit_code, result.stdout) == (0, f"Key {key_id} is revoked.\n")
    with pytest.raises(Exception, match="Incorrect API key"):
        known(url).check(f"Bearer {key}".encode())


def key_id(created: str) -> str:
    return created.split("_")[1]


def test_the_first_key_announces_that_every_request_needs_one(run: Run, url: str) -> None:
    first, second = run("keys", "create"), run("keys", "create")
    assert "from now on every request needs one" in first.stderr
    assert f"antiphon keys delete {key_id(first.stdout)}" in first.stderr
    assert "every request" not in second.stderr


def test_with_a_configured_key_the_first_stored_one_changes_nothing(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_SERVER__API_KEYS", '["configured"]')
    assert "every request" not in run("keys", "create").stderr
    deleted = run("keys", "delete", "--all", "--yes")
    assert (deleted.exit_code, deleted.stdout) == (0, "Deleted 1 key.\n")
    assert "Requests still need a key of server.api_keys." in deleted.stderr


def test_deleting_the_last_key_asks_and_leads_back_to_no_keys(run: Run, url: str) -> None:
    first, second = (run("keys", "create").stdout.strip() for _ in range(2))
    run("keys", "revoke", key_id(second))
    deleted = run("keys", "delete", key_id(first), key_id(first))
    assert (deleted.exit_code, deleted.stdout, deleted.stderr) == (0, "Deleted 1 key.\n", "")
    asked = run("keys", "delete", "--all", input="n\n")
    assert asked.exit_code != 0
    assert "accepts every request of this machine without a key. Delete?" in asked.stderr
    assert not known(url).empty
    done = run("keys", "delete", "--all", "--yes")
    assert "accepts every request of this machine without a key." in done.stderr
    assert known(url).empty


def test_a_key_that_no_server_would_accept_is_not_created(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("keys", "create")
    monkeypatch.setenv("ANTIPHON_SEAL__KEY", "another secret")
    refused = run("keys", "create")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "antiphon db accept-seal-key" in refused.stderr
    assert run("db", "accept-seal-key").exit_code == 0
    assert run("keys", "create").exit_code == 0


def test_beyond_loopback_the_last_key_never_opens_the_server(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_SERVER__HOST", "0.0.0.0")
    key = run("keys", "create").stdout.strip()
    done = run("keys", "delete", key_id(key), "--yes")
    assert "A server on 0.0.0.0 refuses every request, and does not start." in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("revoke", "nobody"), "nobody"),
        (("delete", "nobody", "--yes"), "nobody"),
        (("delete",), "--all"),
        (("delete", "--all", "nobody"), "--all"),
        (("create", "--tenant", "a b"), "A tenant has 1 to 64"),
        (("create", "--expires", "soon"), "'soon' is not a duration"),
        (("create", "--scope", "everything"), "responses:read"),
    ],
)
def test_invalid_options_are_wrong_usage(
    run: Run, url: str, arguments: tuple[str, ...], message: str
) -> None:
    result = run("keys", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("store", ["memory:", "none"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "create"),
        ("keys", "list"),
        ("keys", "revoke", "x"),
        ("keys", "delete", "x"),
        ("db", "status"),
        ("db", "migrate"),
        ("db", "vacuum"),
        ("responses", "list"),
        ("responses", "show", "x"),
        ("responses", "tree"),
        ("responses", "delete", "x"),
        ("responses", "export"),
        ("chat", "--continue"),
    ],
)
def test_a_store_that_stores_nothing_is_rejected(run: Run, arguments: tuple[str, ...], store: str) -> None:
    result = run(*arguments, "--store", store)
    assert result.exit_code == 2
    assert f"The store '{store}' does not persist responses." in result.stderr
    assert "sqlite:PATH" in result.stderr
