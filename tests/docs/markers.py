"""The rules that tests show: every `pytest.mark.requirement(…)` of the test files, with its test."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MARKER = "pytest.mark.requirement"


class Mark(NamedTuple):
    """One rule at one test; without a test, it applies to the complete file. `case` is the first parameter."""

    rule: str
    path: str
    test: str = ""
    case: str = ""


def marks_in(source: str, path: str = "") -> Iterator[Mark]:
    """The marks of a file: at functions, in parameters, and for the file."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions:
        for decorator in function.decorator_list:
            yield from _marks(decorator, path, function.name)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
            users = [function.name for function in functions if names & _decorated_with(function)]
            yield from _marks(node.value, path, next(iter(users), ""))


@cache
def all_marks() -> tuple[Mark, ...]:
    """The marks of all tests."""
    return tuple(
        mark
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for mark in marks_in(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    )


def _marks(node: ast.AST, path: str, test: str, case: str = "") -> Iterator[Mark]:
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        if called == MARKER:
            for argument in node.args:
                yield Mark(str(ast.literal_eval(argument)), path, test, case)
            return
        if called == "pytest.param" and node.args and isinstance(node.args[0], ast.Constant):
            case = str(node.args[0].value)
    for child in ast.iter_child_nodes(node):
        yield from _marks(child, path, test, case)


def _decorated_with(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names in its decorators, except pytest's."""
    names = {
        name.id
        for decorator in function.decorator_list
        for name in ast.walk(decorator)
        if isinstance(name, ast.Name)
    }
    return names - {"pytest"}
