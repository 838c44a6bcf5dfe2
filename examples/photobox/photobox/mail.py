"""Sending one e-mail."""

from __future__ import annotations

import smtplib
from email.message import EmailMessage

from .settings import settings


def send(to: str, subject: str, text: str) -> None:
    """Hand an e-mail to the mail server."""
    mine = settings()
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = mine.sender, to, subject
    message.set_content(text)
    with smtplib.SMTP(mine.smtp_host, mine.smtp_port, timeout=30) as server:
        server.send_message(message)
