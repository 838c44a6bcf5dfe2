from email.message import EmailMessage

import pytest
from mail_context import smtp
from mail_tasks import letters, send
from order_tasks import orders, pack

from tontine import NotOpen
from tontine.testing import EagerQueue, run_task


class Letterbox:
    """Stands in for a mail server: it keeps what was sent."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def noop(self) -> None: ...

    def send_message(self, message: EmailMessage) -> None:
        self.kept.append(f"{message['To']}: {message['Subject']}")


def test_a_letter_is_sent() -> None:
    with smtp.standing_in(Letterbox()) as letterbox:
        run_task(send, to="ada@example.org", subject="Hello")
    assert letterbox.kept == ["ada@example.org: Hello"]


def test_an_order_is_followed_by_a_letter() -> None:
    queue = EagerQueue(orders, letters)
    with smtp.standing_in(Letterbox()) as letterbox:
        queue.submit(pack, {"number": 7, "customer": "ada@example.org"})
    assert letterbox.kept == ["ada@example.org: Your order 7"]


def test_without_a_server_and_without_a_stand_in_there_is_none() -> None:
    with pytest.raises(NotOpen, match="the connection smtp belongs to context mail"):
        run_task(send, to="ada@example.org", subject="Hello")
