"""The Python of a sandbox: which files of the host it needs."""

import json
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

_QUERY_TIMEOUT_SECONDS = 10.0
_QUERY = """
import json, os, site, sys
base = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
extra = site.getsitepackages() if sys.prefix != sys.base_prefix else []
print(json.dumps([base, os.path.realpath(sys.base_prefix), [os.path.realpath(path) for path in extra]]))
"""
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/bin", "/usr/bin", "/etc/alternatives")
"""Libraries, and programs for commands of a shell."""


class PythonFiles(Struct, frozen=True):
    """An executable, the files and folders that it needs, and the folders of packages of its environment."""

    executable: str
    mounts: tuple[str, ...]
    libraries: str
    packages: tuple[str, ...] = ()


def find_python(executable: str | None) -> PythonFiles:
    """The files of an interpreter, which may be that of a virtual environment. Without one: the Python of
    this process, without its packages. Raises `OSError` or `ValueError` if it cannot be run."""
    if executable is None:
        base = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
        prefix, packages = str(Path(sys.base_prefix).resolve()), list[str]()
    else:
        try:
            ran = subprocess.run(
                [executable, "-I", "-c", _QUERY],
                check=True,
                capture_output=True,
                timeout=_QUERY_TIMEOUT_SECONDS,
            )
        except subprocess.SubprocessError as error:
            raise ValueError(f"'{executable}' cannot be run: {error}") from error
        base, prefix, packages = json.loads(ran.stdout)
    wanted = (*_SYSTEM, f"{prefix}/lib", f"{prefix}/lib64", base, *packages)
    mounts = tuple(dict.fromkeys(path for path in wanted if Path(path).exists()))
    return PythonFiles(base, mounts, f"{prefix}/lib", tuple(packages))
