"""A mail server of a test: it takes every mail, over SMTP, on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.controller import Controller

from tests.support.receivers import LOOPBACK


@dataclass
class Mailbox:
    """What the server has got.

    :param port: Where it listens.
    :param mails: In the order in which they came.
    :param refuses: Whether it takes none for now.
    """

    port: int
    refuses: bool = False
    mails: list[EmailMessage] = field(default_factory=list)

    def with_text(self, text: str) -> list[EmailMessage]:
        """Return the mails whose HTML holds a text."""
        return [mail for mail in list(self.mails) if text in html_of(mail)]

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:  # noqa: N802  # aiosmtpd's name
        """Take a mail."""
        if self.refuses:
            return "554 not now"
        self.mails.append(message_from_bytes(envelope.content, policy=default))
        return "250 taken"


def html_of(mail: EmailMessage) -> str:
    """Return the HTML of a mail."""
    body = mail.get_body(("html",))
    return "" if body is None else str(body.get_content())


@contextmanager
def mail_server(port: int) -> Iterator[Mailbox]:
    """Take mails on a port."""
    mailbox = Mailbox(port)
    controller = Controller(mailbox, hostname=LOOPBACK, port=port)
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()
