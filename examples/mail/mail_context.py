import os
import smtplib
from collections.abc import Iterator
from contextlib import contextmanager

from tontine import Context

mail = Context("mail")


@mail.connection
@contextmanager
def smtp() -> Iterator[smtplib.SMTP]:
    with smtplib.SMTP(*address(), timeout=10) as server:
        yield server


@mail.configure
def greet() -> None:
    smtp().ehlo_or_helo_if_needed()


def address() -> tuple[str, int]:
    return os.environ["SMTP_HOST"], int(os.environ.get("SMTP_PORT", "25"))
