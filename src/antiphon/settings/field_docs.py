"""The meanings of settings: the docstrings below their fields, which exist only in the source."""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

from msgspec import Struct

Docs = Mapping[str, str]


def field_docs(struct: type[Struct]) -> Docs:
    """The docstring of each field that has one, in one line. Empty without the source."""
    return _docs_of_module(struct.__module__).get(struct.__name__, {})


@cache
def _docs_of_module(name: str) -> Mapping[str, Docs]:
    try:
        source = inspect.getsource(sys.modules[name])
    except OSError:
        return {}
    classes = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    return {node.name: dict(_docs_of_class(node)) for node in classes}


def _docs_of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in pairwise(node.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())
            case _:
                pass
