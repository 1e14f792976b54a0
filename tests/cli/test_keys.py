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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("revoke", "nobody"), "nobody"),
        (("create", "--tenant", "a b"), "A tenant has 1 to 64"),
        (("create", "--expires", "soon"), "'soon' is not a duration"),
        (("create", "--scope", "admin"), "responses:read"),
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
