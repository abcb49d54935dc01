"""Name of a query in its script, and its written form in directories and records.

Spark accepts any text. A name that is safe as a file name stays unchanged; other text is written with ``~`` and the
bytes of its unsafe characters, as ``Flattened~20Orders``. Safe names contain no ``~``, so two names never share a form,
even if one looks like the other's form. A very long name keeps its beginning and gets a digest of the whole.

People read the script's own name: :func:`shown` puts it into a text.
"""

from __future__ import annotations

import hashlib
import re


# Neighbours of the queries' directories.
RESERVED = frozenset({"sinks", "manifest.json"})

_SAFE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_LONGEST, _KEPT = 160, 100  # characters: a file name has at most 255 bytes, and other names are put around it
_PIECE = r"(?:[A-Za-z0-9._-]|~[0-9A-F]{2})"
_WRITTEN = re.compile(rf"{_PIECE}+(?:~~[0-9a-f]{{32}})?")
_IN_TEXT = re.compile(
    rf"(?<![\w./~%-])(?={_PIECE}*~){_PIECE}*(?:[A-Za-z0-9]|~[0-9A-F]{{2}})(?:~~[0-9a-f]{{32}})?(?![\w/~%])"
)


class QueryDirectory(str):
    """Name that is already in its written form as a directory."""

    __slots__ = ()


def query_directory(name: str) -> QueryDirectory:
    """Return the query's written form in directories and records; the same for every start."""
    if isinstance(name, QueryDirectory):
        return name
    if _SAFE.fullmatch(name) and ".." not in name and name not in RESERVED:
        return QueryDirectory(name)
    pieces = [_piece(name, index) for index in range(len(name))]
    written = "".join(pieces)
    if len(written) > _LONGEST or "~" not in written:
        while sum(map(len, pieces)) > _KEPT:
            pieces.pop()
        written = f"{''.join(pieces)}~~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    return QueryDirectory(written)


def is_query_directory(written: str) -> bool:
    """Return whether a text is the written form of some query, and safe as a file name."""
    if "~" not in written:
        return bool(_SAFE.fullmatch(written)) and ".." not in written and written not in RESERVED
    return bool(_WRITTEN.fullmatch(written)) and len(written) <= _LONGEST and ("~~" in written or _is_exact(written))


def own_name(written: str) -> str:
    """Return the script's own name of a query; of a very long one its beginning."""
    beginning, long, _ = written.partition("~~")
    read = re.sub(r"(?:~[0-9A-F]{2})+", lambda found: _bytes(found.group()), beginning)
    return f"{read}…" if long else read


def shown(text: str) -> str:
    """Return a text in which queries have their own names. Paths in it stay as they are."""
    if "~" not in text:
        return text

    def replaced(found: re.Match[str]) -> str:
        written = found.group()
        return own_name(written) if is_query_directory(written) else written

    return _IN_TEXT.sub(replaced, text)


def _is_exact(written: str) -> bool:
    return query_directory(own_name(written)) == written


def _piece(name: str, index: int) -> str:
    character = name[index]
    inside = 0 < index < len(name) - 1 and not (character == "." and name[index - 1] == ".")
    safe = character.isascii() and (character.isalnum() or (inside and character in "._-"))
    if safe and not (index == 0 and name in RESERVED):
        return character
    return "".join(f"~{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _bytes(written: str) -> str:
    found = bytes.fromhex(written.replace("~", ""))
    try:
        return found.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return found.decode("utf-8", "replace")
