"""Decides from a waiting script's source whether the script may still reach a start of a query.

An unknown case counts as yes: the script then continues, and a proof finds its query.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TypeAlias


_STARTS = frozenset({"start", "toTable"})  # also of a thread
_Scope: TypeAlias = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_Named: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def may_start_again(directory: Path) -> bool:
    """Return whether the calling thread may reach a start of a query after its current statement.

    :param directory: Directory of the script and its modules.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the public function reads the source of each frame
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(directory) and _goes_on(file, frame):
            return True
        frame = frame.f_back
    return False


def _goes_on(file: Path, frame: FrameType) -> bool:
    parsed = _parsed(file)
    return parsed is None or starts_after(parsed, frame.f_lineno, frame.f_code.co_firstlineno)


def starts_after(module: ast.Module, line: int, scope_line: int) -> bool:
    """Return whether execution at a line may reach a start after that line. Pure.

    :param line: The executed line.
    :param scope_line: First line of the function that contains it.
    """
    names = _starting_names(module)
    scope = _scope(module, line, scope_line)
    around = [node for node in _own_nodes(scope) if _holds(node, line)]
    loops = [node for node in around if isinstance(node, _LOOPS)]
    never = [other for node in around for other in _other_branches(node, line)]
    for node in _own_nodes(scope):
        if _mentions(node, names):
            at = getattr(node, "lineno", 0)
            if any(_holds(loop, at) for loop in loops):
                return True
            if at > line and not any(_holds(other, at) for other in never):
                return True
    return False


@cache
def _parsed(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _starting_names(module: ast.Module) -> frozenset[str]:
    """Return the names of functions and classes that contain a start, directly or through another such name."""
    known, found = frozenset({""}), frozenset[str]()
    named = [node for node in ast.walk(module) if isinstance(node, _Named)]
    while found != known:
        known = found
        found = known | {node.name for node in named if any(_mentions(each, known) for each in ast.walk(node))}
    return known


def _mentions(node: ast.AST, names: frozenset[str]) -> bool:
    """Return whether a node names a start or any of *names*; a plain variable may also be called ``start``."""
    if isinstance(node, ast.Attribute):
        return node.attr in _STARTS or node.attr in names
    return isinstance(node, ast.Name) and node.id in names


def _scope(module: ast.Module, line: int, scope_line: int) -> _Scope:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and _holds(node, line):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            if first == scope_line:
                return node
    return module


def _own_nodes(scope: _Scope) -> Iterator[ast.AST]:
    """Yield the nodes that a scope itself executes; a function defined there is executed by its name."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(ast.iter_child_nodes(node))


def _other_branches(node: ast.AST, line: int) -> list[ast.stmt | ast.ExceptHandler]:
    """Return the statements skipped after a line of a branch: ``else``, or the handlers when nothing has failed."""
    if isinstance(node, ast.If) and any(_holds(each, line) for each in node.body):
        return list(node.orelse)
    if isinstance(node, ast.Try) and any(_holds(each, line) for each in node.body):
        return list(node.handlers)
    return []


def _holds(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", None) or 0)
