"""Python writes bases and the component reads them; what one of the two refuses, the other one refuses as well."""

from __future__ import annotations

import random
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from airflow_provider_ha.checkpoints.areas.layered.base_file import Base, BaseEntry, parse_base
from airflow_provider_ha.errors import CheckpointCorruptError
from tests.support.spark.component_jvm import ComponentJvm


pytestmark = pytest.mark.timeout(400)  # the first test waits for the compiler and for a JVM
ODD = "%\t\n\r .:;,=+&#?*[]{}()'\"\\|<>~^`@$!-_\u00e4\u4e2d\u2028\u200d\ufeff\U0001f600\uffff09Aa"
HEAD = 'spark-ha-base 1 {"epoch": 8}'
LINE = "offsets/4\tp/offsets/4\t120\t1700000000000\tab12"
REFUSED = {
    "empty": "",
    "another magic": f"spark-ha-bass 1 {{}}\n{LINE}\nend 1\n",
    "another version": f"spark-ha-base 2 {{}}\n{LINE}\nend 1\n",
    "no json": f"spark-ha-base 1\n{LINE}\nend 1\n",
    "no end": f"{HEAD}\n{LINE}\n",
    "a wrong end": f"{HEAD}\n{LINE}\nend 2\n",
    "no last line feed": f"{HEAD}\n{LINE}\nend 1",
    "one line more": f"{HEAD}\n{LINE}\nend 1\n\n",
    "a name twice": f"{HEAD}\n{LINE}\n{LINE}\nend 2\n",
    "four fields": f"{HEAD}\nmetadata\tm\t1\t1\nend 1\n",
    "six fields": f"{HEAD}\nmetadata\tm\t1\t1\t\t\nend 1\n",
    "an empty name": f"{HEAD}\n\tm\t1\t1\t\nend 1\n",
    "an empty place": f"{HEAD}\nmetadata\t\t1\t1\t\nend 1\n",
    "a name that leads up": f"{HEAD}\na/../b\tm\t1\t1\t\nend 1\n",
    "a place that leads up": f"{HEAD}\nmetadata\t../m\t1\t1\t\nend 1\n",
    "an absolute place": f"{HEAD}\nmetadata\t/m\t1\t1\t\nend 1\n",
    "a dot": f"{HEAD}\na/./b\tm\t1\t1\t\nend 1\n",
    "a double slash": f"{HEAD}\na//b\tm\t1\t1\t\nend 1\n",
    "a final slash": f"{HEAD}\na/\tm\t1\t1\t\nend 1\n",
    "an escape that leads up": f"{HEAD}\n%2E%2E/b\tm\t1\t1\t\nend 1\n",
    "a small escape": f"{HEAD}\na%0a\tm\t1\t1\t\nend 1\n",
    "half an escape": f"{HEAD}\na%2\tm\t1\t1\t\nend 1\n",
    "a bare percent sign": f"{HEAD}\na%\tm\t1\t1\t\nend 1\n",
    "a carriage return": f"{HEAD}\na\r\tm\t1\t1\t\nend 1\n",
    "a sign": f"{HEAD}\nmetadata\tm\t-1\t1\t\nend 1\n",
    "a plus sign": f"{HEAD}\nmetadata\tm\t+1\t1\t\nend 1\n",
    "a leading zero": f"{HEAD}\nmetadata\tm\t01\t1\t\nend 1\n",
    "a blank": f"{HEAD}\nmetadata\tm\t 1\t1\t\nend 1\n",
    "digits of another script": f"{HEAD}\nmetadata\tm\t\u0661\t1\t\nend 1\n",
    "no length": f"{HEAD}\nmetadata\tm\t\t1\t\nend 1\n",
    "nineteen digits": f"{HEAD}\nmetadata\tm\t1000000000000000000\t1\t\nend 1\n",
}


class Reader:
    """The component's reader of a base, which no other class of Java may call."""

    def __init__(self, jvm: Any) -> None:
        base = jvm.java.lang.Class.forName("io.github.sparkha.Base")
        self._methods = {method.getName(): method for method in base.getDeclaredMethods()}
        for method in self._methods.values():
            method.setAccessible(True)
        self._jvm = jvm

    def call(self, name: str, target: Any, *arguments: Any) -> Any:
        values = self._jvm.java.util.ArrayList()
        for argument in arguments:
            values.add(argument)
        return self._methods[name].invoke(target, values.toArray())

    def parse(self, content: bytes) -> Any:
        """Return the base.

        :raises Py4JJavaError: It is refused.
        """
        return self.call("parse", None, content, "a base")

    def entry(self, base: Any, name: str) -> BaseEntry:
        found = self.call("file", base, name)
        assert found is not None, name
        fields = {}
        for component in found.getClass().getRecordComponents():
            accessor = component.getAccessor()
            accessor.setAccessible(True)
            fields[component.getName()] = accessor.invoke(found, self._jvm.java.util.ArrayList().toArray())
        return BaseEntry(name, **fields)


@pytest.fixture
def reader(jvm: ComponentJvm) -> Reader:
    return Reader(jvm.jvm)


def odd_path(at_random: random.Random) -> str:
    segments = ["".join(at_random.choices(ODD, k=at_random.randint(1, 6))) for _ in range(at_random.randint(1, 4))]
    return "/".join(segment if segment not in (".", "..") else "dots" for segment in segments)


def odd_base(seed: int) -> Base:
    """Return a base of names that no release of Spark makes and a script could."""
    at_random = random.Random(seed)
    numbers = (0, 1, 2**31, 2**32, 2**53, 10**18 - 1)
    entries = {
        name: BaseEntry(
            name,
            odd_path(at_random),
            length=at_random.choice(numbers),
            mtime=at_random.choice(numbers),
            etag=at_random.choice(("", "ab12-3")),
        )
        for name in (odd_path(at_random) for _ in range(20))
    }
    return Base.of(entries.values(), epoch=seed, submission="s", source=odd_path(at_random), batch=3)


@pytest.mark.parametrize("seed", range(20))
def test_what_python_writes_the_component_reads(reader: Reader, seed: int) -> None:
    written = odd_base(seed)

    read = reader.parse(written.to_bytes())

    assert [reader.entry(read, entry.name) for entry in written.entries] == list(written.entries)
    assert reader.call("epoch", read) == str(seed)
    first = {entry.name.partition("/")[0] for entry in written.entries}
    assert set(reader.call("children", read, "")) == first


@pytest.mark.parametrize("case", REFUSED)
def test_what_one_refuses_the_other_refuses(reader: Reader, case: str) -> None:
    content = REFUSED[case].encode()

    with pytest.raises(CheckpointCorruptError):
        parse_base(content)
    with pytest.raises(Py4JJavaError, match="is refused"):
        reader.parse(content)


@pytest.mark.parametrize("seed", range(5))
def test_both_judge_a_damaged_base_alike(reader: Reader, seed: int) -> None:
    """A bit that flipped, a part that is gone; but for the order and the JSON for people, where only Python looks."""
    at_random, sound = random.Random(seed), odd_base(seed).to_bytes()
    differ = []
    for _ in range(60):
        place = at_random.randrange(len(sound))
        damaged = at_random.choice((sound[:place], sound[:place] + sound[place + 1 :], _flipped(sound, place)))
        try:
            parse_base(damaged)
            by_python = ""
        except CheckpointCorruptError as error:
            by_python = error.reason
        by_java = ""
        try:
            reader.parse(damaged)
        except Py4JJavaError as error:
            by_java = str(error.java_exception)
        if bool(by_python) != bool(by_java) and not any(what in by_python for what in ("order", "JSON")):
            differ.append((by_python, by_java, damaged))

    assert differ == []


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
