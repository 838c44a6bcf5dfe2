import smtplib
from email.message import EmailMessage

from mail_context import address, smtp

from tontine import Module

letters = Module("letters", version="1.0")


@letters.task(max_attempts=5, retry_on=(OSError, smtplib.SMTPServerDisconnected))
def send(to: str, subject: str, text: str = "") -> str:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "shop@example.org", to, subject
    message.set_content(text)
    connected().send_message(message)
    return to


def connected() -> smtplib.SMTP:
    """The server that the worker opened; again, if it has hung up since."""
    server = smtp()
    try:
        server.noop()
    except smtplib.SMTPServerDisconnected:
        server.connect(*address())
        server.ehlo()
    return server
