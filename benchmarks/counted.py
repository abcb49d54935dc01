"""A proxy before an S3 server that counts requests by their kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, s3_proxy


KINDS = ("PUT", "POST", "LIST", "GET", "HEAD", "DELETE")


@contextmanager
def counting_proxy(upstream: str) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the URL of a proxy, and how many requests of each kind have passed it."""
    counts: Counter[str] = Counter()

    def counted(method: str) -> Fault:
        def note(exchange: Exchange) -> None:
            listing = method == "GET" and "list-type" in parse_qs(urlsplit(exchange.path).query)
            counts["LIST" if listing else method] += 1
            exchange.forward()

        return Fault(note, method, times=FOR_EVER)

    with s3_proxy(upstream, *map(counted, ("GET", "HEAD", "PUT", "POST", "DELETE"))) as endpoint:
        yield endpoint, counts
