"""Every small change of a module that is worth a try, found in its syntax tree. Pure.

A change is a piece of text that takes the place of another one, so the rest of the file keeps its form and its line
numbers. Left out is what no test is there to judge: log lines, annotations, assertions, ``__repr__``, what runs only
for a type checker or as a script, how a dataclass or a model is declared, and whole numbers from 1,000 on (sizes of
blocks).
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.mutants.guards import without_guard


_SHIFTED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_LOGS = {"log", "_log"}
_DECLARING = {"dataclass", "ConfigDict", "field", "runtime_checkable"}
_TOO_LARGE = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one file.

    :param file: Path from the root of the repository.
    :param place: Qualified name of the function or class; empty at the level of the module.
    :param first: First line of what is changed, from 1.
    :param last: Last line of it.
    :param start: Where in the file's UTF-8 the changed piece begins.
    :param stop: Where it ends.
    :param new: What takes its place.
    :param kind: What is done, for people: ``< to <=``, ``raise dropped``.
    :param line: The first line, without its indentation and the mark of a guard.
    :param at_import: Whether it is executed by the import of the module, and not by a call.
    :param turn: Which one of equal changes of equal lines of one place it is, from 0.
    """

    file: str
    place: str
    first: int
    last: int
    start: int
    stop: int
    new: str
    kind: str
    line: str
    at_import: bool = False
    turn: int = 0

    @property
    def id(self) -> str:
        """Stays the same while other lines of the file come and go."""
        told = repr((self.file, self.place, self.line, self.kind, self.turn))
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def rank(self, seed: int) -> str:
        """Order by chance, the same for the same seed: also when other changes come and go."""
        return hashlib.sha256(f"{seed} {self.id}".encode()).hexdigest()

    def apply(self, source: str) -> str:
        """Return the changed text of the file."""
        text = source.encode()
        return (text[: self.start] + self.new.encode() + text[self.stop :]).decode()


def changes(file: str, source: str) -> list[Change]:
    """Return every change of a module, in the order of its text.

    :param file: Path from the root of the repository.
    """
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    found, turns = [], dict[tuple[str, str, str], int]()
    for change in sorted(finder.found, key=lambda item: (item.start, item.stop, item.kind)):
        key = (change.place, change.line, change.kind)
        found.append(dataclasses.replace(change, turn=turns.get(key, 0)))
        turns[key] = turns.get(key, 0) + 1
    return found


class _Finder(ast.NodeVisitor):
    """Walks a module, and leaves out what no test judges."""

    def __init__(self, file: str, source: str) -> None:
        self.found: list[Change] = []
        self._file = file
        self._text = source.encode()
        self._lines = source.splitlines()
        self._starts = [0]
        for line in self._text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scope: list[str] = []
        self._calls = 0  # functions around this node

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._within(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name != "__repr__":
            self._within(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._within(node)

    def _within(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._scope.append(node.name)
        is_function = not isinstance(node, ast.ClassDef)
        if not isinstance(node, ast.ClassDef):
            for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                self.visit(default)
        self._calls += is_function
        for statement in node.body:
            self.visit(statement)
        self._calls -= is_function
        self._scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Types are its reason here: no test sees it fail."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A text for people."""

    def visit_If(self, node: ast.If) -> None:
        test = ast.unparse(node.test)
        if "TYPE_CHECKING" in test or "__name__" in test:
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._negate(node.test)
            self.visit(node.test)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(node, "pass", "raise dropped")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or _logs(node.value):
            return
        if isinstance(node.value, ast.Call):
            self._add(node, "pass", "call dropped")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if not _logs(node) and _name(node.func) not in _DECLARING:
            self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            old, new = _SHIFTED[type(operator)]
            self._replace_between(left, right, old, new)
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_between(left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            word = re.compile(rb"not\s*").match(self._text, self._at(node))
            if word is not None:
                self._add_piece(node, word.start(), word.end(), "", "not dropped")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(node, str(not value), f"{value} to {not value}")
        elif isinstance(value, int) and abs(value) < _TOO_LARGE:
            self._add(node, f"{value + 1}", f"{value} to {value + 1}")
            self._add(node, f"({value - 1})", f"{value} to {value - 1}")

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Constant) and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            text = self._text[self._at(test) : self._end(test)].decode()
            self._add(test, f"(not ({text}))", "condition negated")

    def _replace_between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        begin, end = self._end(left), self._at(right)
        between = self._text[begin:end].decode()
        pattern = r"\s+".join(rf"\b{word}\b" for word in old.split()) if old[0].isalpha() else re.escape(old)
        match = re.search(pattern, between)
        if match is not None:
            offset = begin + len(between[: match.start()].encode())
            self._add_piece(left, offset, offset + len(match.group().encode()), new, f"{old} to {new}", last=right)

    def _add(self, node: ast.expr | ast.stmt, new: str, kind: str) -> None:
        self._add_piece(node, self._at(node), self._end(node), new, kind)

    def _add_piece(
        self, node: ast.expr | ast.stmt, start: int, stop: int, new: str, kind: str, *, last: ast.expr | None = None
    ) -> None:
        self.found.append(
            Change(
                file=self._file,
                place=".".join(self._scope),
                first=node.lineno,
                last=(last or node).end_lineno or node.lineno,
                start=start,
                stop=stop,
                new=new,
                kind=kind,
                line=without_guard(self._lines[node.lineno - 1]).strip(),
                at_import=not self._calls,
            )
        )

    def _at(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def _logs(node: ast.expr) -> bool:
    """Whether it writes a line into the log."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in _LOGS
    )


def chosen(found: Iterable[Change], seed: int, number: int | None = None) -> list[Change]:
    """Return *number* of the changes by chance, the same ones for the same seed; without a number all of them."""
    return sorted(found, key=lambda change: change.rank(seed))[:number]
