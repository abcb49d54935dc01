"""What holds a request in the zombie matrix: one, the right one, and either it or its answer."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from lab.zombie.cells import Where
from lab.zombie.hold import Hold
from lab.zombie.play import hold_of
from tests.support.hdfs.rpc_proxy import rpc_proxy


PATIENCE = 30.0


def frame(call: str, path: str) -> bytes:
    """Return what matters of a remote call: its name with its length, and a path."""
    return b"\x0a" + bytes([len(call)]) + call.encode() + b"\x12" + bytes([len(path)]) + path.encode() + b"\x18\x01"


def met(hold: Hold, *frames: bytes) -> list[bool]:
    """Return whether it is met after each of these requests; it is released before."""
    hold.release()
    seen = []
    for each in frames:
        hold.on_request(each)
        seen.append(hold.met.is_set())
    return seen


@pytest.mark.parametrize(
    ("where", "call", "before", "name"),
    [
        (Where.PLANNING, "rename2", "sources/0/4", "sources/0/5.compact"),
        (Where.PLAN_PUT, "rename2", "offsets/4", "offsets/5"),
        (Where.UPLOAD, "addBlock", "state/1/0/5_c0ffee.zip", "state/1/0/.6_c0ffee.zip.tmp"),
        (Where.UPLOAD, "addBlock", "state/1/0/16.delta", "state/1/0/.6.delta.tmp"),
        (Where.COMMIT_PUT, "rename2", "commits/55", "commits/5"),
    ],
)
def test_the_request_of_its_batch_is_held_and_no_other(where: Where, call: str, before: str, name: str) -> None:
    frames = (frame(call, f"/e1-x/q/{before}"), frame("getFileInfo", f"/e1-x/q/{name}"), frame(call, f"/e1-x/q/{name}"))

    assert met(hold_of(where), *frames) == [False, False, True]


def test_a_file_of_rows_is_held_once_its_batch_is_planned() -> None:
    rows, plan = frame("create", "/j-out/part-00000"), frame("rename2", "/e1-x/q/offsets/5")

    assert met(hold_of(Where.TASK), rows, plan, rows) == [False, False, True]


class Node:
    """A name node that answers each request with its number."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.asked = threading.Semaphore(0)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        with connection, connection.makefile("rb") as stream:
            stream.read(7)
            for number in range(2):
                stream.read(struct.unpack(">I", stream.read(4))[0])
                self.asked.release()
                connection.sendall(bytes([number]))

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    yield node
    node.close()


@pytest.mark.parametrize("answered", [False, True])
def test_a_proxy_holds_the_request_or_its_answer(node: Node, answered: bool) -> None:
    hold = Hold("/held", answered=answered)
    with (
        rpc_proxy("127.0.0.1", node.port, hold.on_request) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client,
    ):
        client.sendall(b"hrpc\x09\x00\x00")
        send(client, frame("rename2", "/free"))
        assert client.recv(1) == b"\0"
        node.asked.acquire()

        send(client, frame("rename2", "/held"))

        assert hold.met.wait(PATIENCE)
        assert node.asked.acquire(blocking=answered, timeout=PATIENCE if answered else None) is answered
        hold.release()
        assert client.recv(1) == b"\1"


def send(client: socket.socket, body: bytes) -> None:
    client.sendall(struct.pack(">I", len(body)) + body)
