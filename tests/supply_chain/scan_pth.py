"""`python -m tests.supply_chain.scan_pth`: fail on code that Python runs at every start of the environment.

Lines of `.pth` files that begin with `import` run at every start of the interpreter, and so do `sitecustomize`
and `usercustomize`. A package that was tampered with can hide there, so every such file has to be known here,
belong to the package named here, and match the hash that this package was installed with.
"""

import base64
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

EXPECTED = {"_editable_impl_antiphon.pth": "antiphon", "a1_coverage.pth": "coverage"}
"""The package of each known file: our editable install, and the measurement of coverage in subprocesses."""
STARTUP_MODULES = ("sitecustomize", "usercustomize")


def unexpected(folder: Path) -> Iterator[str]:
    """What runs at every start with this folder of packages and should not."""
    installed = {found.metadata["Name"].lower(): found for found in distributions(path=[str(folder)])}
    for path in sorted(folder.glob("*.pth")):
        package = EXPECTED.get(path.name)
        if package is None:
            yield f"{path}: unknown file: {_beginning(path)}"
        elif package not in installed:
            yield f"{path}: {package} is not installed"
        elif not _as_installed(path, installed[package]):
            yield f"{path}: differs from the file that {package} installed: {_beginning(path)}"
    for name in STARTUP_MODULES:
        for path in (folder / f"{name}.py", folder / name):
            if path.exists():
                yield f"{path}: runs at every start"


def _as_installed(path: Path, package: Distribution) -> bool:
    for file in package.files or ():
        if file.name == path.name and file.hash is not None:
            digest = hashlib.new(file.hash.mode, path.read_bytes()).digest()
            return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value
    return False


def _beginning(path: Path) -> str:
    return repr(path.read_text(encoding="utf-8", errors="replace")[:100])


def main() -> int:
    """Scan the folders of packages of this environment; 1 if something is unexpected."""
    folders = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    found = [line for folder in sorted(folders) for line in unexpected(folder)]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
