"""The doctor reports problems with their remedy, and redacts secrets."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.conftest import Run
from tests.cli.upstream import ScriptedUpstream


def checks(result: Result) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def test_a_healthy_installation_is_in_order(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("doctor", "--upstream", upstream.url)
    assert result.exit_code == 0, result.stdout
    assert "✓" in result.stdout
    assert "✗" not in result.stdout
    assert "2 models" in result.stdout
    assert "All checks passed." in result.stdout


def test_json_holds_the_same_for_machines(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("doctor", "--json", "--upstream", upstream.url)
    found = checks(result)
    assert json.loads(result.stdout)["ok"] is True
    assert set(found) >= {"python", "packages", "configuration", "data folder", "address", "store"}
    assert found["upstream plain"]["status"] == "ok"


def test_a_broken_configuration_is_one_finding_among_others(run: Run) -> None:
    Path("antiphon.toml").write_text("[server]\nport = 'many'\n")
    result = run("doctor", "--json")
    found = checks(result)
    assert result.exit_code == 1
    assert found["configuration"]["status"] == "failed"
    assert found["configuration"]["advice"] == "antiphon.toml:2: [server].port: expected `int`, got `str`."
    assert found["python"]["status"] == "ok"


def test_every_setting_is_shown_with_its_source(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("antiphon.toml").write_text("[server]\nworkers = 3\ndrain = 5\n[seal]\nkey = 'secret-of-the-seal'\n")
    monkeypatch.setenv("ANTIPHON_SERVER__DRAIN", "7")
    result = run("doctor", "--json", "--upstream", upstream.url, "--store", "none")
    assert checks(result)["configuration"]["found"].splitlines() == [
        "from antiphon.toml in this folder",
        "server.workers = 3 (file)",
        "server.drain = 7.0 (ANTIPHON_SERVER__DRAIN)",
        'store.url = "none" (command line)',
        "seal.key = (hidden) (file)",
        "upstreams: 1 (command line)",
    ]


def test_unknown_models_are_reported_with_the_offered_ones(run: Run, upstream: ScriptedUpstream) -> None:
    rows = f'[[upstreams]]\nbase_url = "{upstream.url}"\nmodels = ["tiny", "vendor/*"]\n'
    Path("antiphon.toml").write_text(f'[aliases]\nfast = "tinny"\n{rows}')
    failed = checks(run("doctor", "--json"))["models"]
    assert failed["status"] == "failed"
    assert "nothing serves the model 'tinny'. Served: 'tiny', 'vendor/*'." in failed["advice"]
    Path("antiphon.toml").write_text(f'[aliases]\nfast = "tiny"\n[health]\nfailures = 2\n{rows}')
    found = checks(run("doctor", "--json"))
    assert found["configuration"]["found"].splitlines()[1:] == [
        'aliases = {"fast":"tiny"} (file)',
        "health.failures = 2 (file)",
        "upstreams: 1 (file)",
    ]
    assert "vendor" not in found["upstream plain"]["found"]


def test_the_embedded_model_can_have_an_alias(run: Run) -> None:
    for target in ("local", "smollm2-135m"):
        Path("antiphon.toml").write_text(f'[aliases]\nfast = "{target}"\n')
        assert checks(run("doctor", "--json"))["models"]["status"] == "ok"


def test_secrets_are_never_shown(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("other.toml").write_text(
        f'[[upstreams]]\nbase_url = "{upstream.url}"\napi_key = "secret-1"\nheaders = {{x = "secret-2"}}\n'
        '[seal]\nkey = "secret-3"\n'
    )
    monkeypatch.setenv("ANTIPHON_CONFIG", "other.toml")
    monkeypatch.setenv("ANTIPHON_SERVER__API_KEYS", '["secret-4"]')
    upstream.key = "another"
    for how in ([], ["--json"]):
        result = run("doctor", *how)
        assert result.exit_code == 1
        assert "secret-" not in result.output


def test_a_wrong_key_names_the_variable_to_set(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.key = "right"
    monkeypatch.setenv("VLLM_API_KEY", "wrong")
    result = run("doctor", "--json", "--upstream", upstream.url, "--upstream-kind", "vllm")
    found = checks(result)["upstream vllm"]
    assert (result.exit_code, found["status"]) == (1, "failed")
    assert "VLLM_API_KEY" in found["advice"]
    monkeypatch.setenv("VLLM_API_KEY", "right")
    assert run("doctor", "--upstream", upstream.url, "--upstream-kind", "vllm").exit_code == 0


def test_an_upstream_that_is_not_there_fails(run: Run) -> None:
    result = run("doctor", "--upstream", "http://127.0.0.1:1/v1")
    assert result.exit_code == 1
    assert "✗" in result.stdout
    assert "→ Start it" in result.stdout


def test_an_upstream_without_a_list_is_only_doubtful(run: Run, upstream: ScriptedUpstream) -> None:
    upstream.models = None
    result = run("doctor", "--json", "--upstream", upstream.url)
    assert (result.exit_code, checks(result)["upstream plain"]["status"]) == (0, "warning")
    assert "There are warnings; see ! above." in run("doctor", "--upstream", upstream.url).stdout


def test_a_model_that_the_upstream_does_not_list_is_doubtful(run: Run, upstream: ScriptedUpstream) -> None:
    result = run("doctor", "--json", "--upstream", upstream.url, "--model", "typo")
    found = checks(result)["upstream plain"]
    assert (result.exit_code, found["status"]) == (0, "warning")
    assert "not typo" in found["found"]
    assert "tiny, other" in found["advice"]


def test_a_port_of_another_program_fails(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("ANTIPHON_SERVER__PORT", str(other.getsockname()[1]))
        result = run("doctor", "--json", "--upstream", upstream.url)
    assert (result.exit_code, checks(result)["address"]["status"]) == (1, "failed")


def test_the_models_that_a_server_would_find_are_shown(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = upstream.url.removeprefix("http://").removesuffix("/v1")
    monkeypatch.setenv("ANTIPHON_DISCOVERY__ADDRESSES", json.dumps([address]))
    monkeypatch.setenv("ANTIPHON_LOCAL__ENABLED", "false")
    monkeypatch.setenv("MISTRAL_API_KEY", "a-key-of-some-provider")
    found = checks(run("doctor", "--json"))["discovery"]
    assert (found["status"], found["found"].splitlines()) == (
        "ok",
        [f"plain at {upstream.url}: tiny, other", "MISTRAL_API_KEY: mistral/*", "auto: tiny"],
    )
    assert "discovery" not in checks(run("doctor", "--json", "--upstream", upstream.url))


@pytest.mark.parametrize(
    ("key", "name", "advice"),
    [("short", "keys", "at least 16"), ("a-key-that-is-long-enough", "address", "TLS")],
)
def test_an_address_beyond_loopback_wants_care(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch, key: str, name: str, advice: str
) -> None:
    monkeypatch.setenv("ANTIPHON_SERVER__HOST", "0.0.0.0")
    monkeypatch.setenv("ANTIPHON_SERVER__PORT", "0")
    monkeypatch.setenv("ANTIPHON_SERVER__API_KEYS", json.dumps([key]))
    found = checks(run("doctor", "--json", "--upstream", upstream.url))[name]
    assert found["status"] == "warning"
    assert advice in found["advice"]


def test_a_data_folder_that_cannot_be_written_fails(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(Path("file").absolute()))
    result = run("doctor", "--json", "--upstream", upstream.url)
    assert (result.exit_code, checks(result)["data folder"]["status"]) == (1, "failed")


def test_weights_that_are_not_there_are_to_be_fetched(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = run("doctor", "--json")
    found = checks(result)
    assert (result.exit_code, found["weights"]["status"]) == (0, "warning")
    assert "antiphon model fetch smollm2-135m" in found["weights"]["advice"]
    assert "generation" not in found


def test_weights_with_a_wrong_checksum_fail(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "antiphon" / "models"
    folder.mkdir(parents=True)
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF")
    result = run("doctor", "--json")
    assert result.exit_code == 1
    assert "wrong sha256" in checks(result)["weights"]["found"]


@pytest.mark.slow
def test_the_embedded_model_is_really_called(run: Run) -> None:
    result = run("doctor", "--json")
    found = checks(result)
    assert result.exit_code == 0, result.output
    assert "sha256 correct" in found["weights"]["found"]
    assert found["generation"]["found"].startswith("loaded and answered")


def test_the_hosted_tools_are_shown(
    run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("antiphon.toml").write_text(
        '[mcp.servers.notes]\nurl = "http://127.0.0.1:1/mcp"\n[interpreter]\nsandbox = "monty"\n'
    )
    found = checks(run("doctor", "--json", "--upstream", upstream.url))["tools"]["found"]
    assert found.splitlines() == [
        "code_interpreter: monty",
        "web_search: no engine is configured",
        "mcp: notes",
    ]

    def missing(_python: str | None) -> str:
        return "it is not installed"

    monkeypatch.setenv("ANTIPHON_INTERPRETER__SANDBOX", "bubblewrap")
    monkeypatch.setattr("antiphon.wiring.sandbox.find_bubblewrap", missing)
    found = checks(run("doctor", "--json", "--upstream", upstream.url))["tools"]["found"]
    assert found.splitlines()[0] == "code_interpreter: not served, because it is not installed"
    monkeypatch.setenv("ANTIPHON_INTERPRETER__SANDBOX", "off")
    found = checks(run("doctor", "--json", "--upstream", upstream.url))["tools"]["found"]
    assert found.splitlines()[0] == "code_interpreter: off"
