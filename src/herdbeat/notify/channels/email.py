"""E-mail by SMTP, in a thread: the library of Python blocks."""

import smtplib
import ssl
from collections.abc import Sequence
from datetime import timedelta
from email.message import EmailMessage
from email.utils import format_datetime

from herdbeat.notify.base import DeliveryFailed, OutgoingMessage

_PORTS = {"starttls": 587, "tls": 465, "none": 25}


def build_email(message: OutgoingMessage) -> EmailMessage:
    """Return the mail. Its headers hold one line each: what ends a line in the text does not reach them."""
    mail = EmailMessage()
    mail["From"] = _to_one_line(message.option("from"))
    mail["To"] = ", ".join(_to_one_line(each) for each in _recipients(message))
    mail["Subject"] = f"[herdbeat] {_to_one_line(message.title)}"
    mail["Date"] = format_datetime(message.now)
    mail["Message-ID"] = f"<{message.id}@herdbeat>"
    mail["Auto-Submitted"] = "auto-generated"
    text = _body_text(message.text)
    mail.set_content(f"{text}\n\n{message.url}\n" if message.url else f"{text}\n")
    return mail


def send_email(message: OutgoingMessage, password: str, timeout: timedelta) -> None:
    """Send it. Blocks. Raises DeliveryFailed."""
    security, host = message.option("security", "starttls"), message.option("host")
    port = int(message.option("port", str(_PORTS[security])))
    try:
        mail = build_email(message)
        with _connect(host, port, security, timeout.total_seconds()) as smtp:
            if message.option("username"):
                smtp.login(message.option("username"), password)
            smtp.send_message(mail)
    except smtplib.SMTPResponseException as error:
        is_final = error.smtp_code >= 500 and not isinstance(error, smtplib.SMTPAuthenticationError)
        raise DeliveryFailed(f"{host} answered {error.smtp_code}.", is_final=is_final) from error
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise DeliveryFailed(f"{host} did not take the mail ({type(error).__name__}).") from error


def _connect(host: str, port: int, security: str, timeout_s: float) -> smtplib.SMTP:
    if security == "tls":
        return smtplib.SMTP_SSL(host, port, timeout=timeout_s, context=ssl.create_default_context())
    smtp = smtplib.SMTP(host, port, timeout=timeout_s)
    if security == "starttls":
        smtp.starttls(context=ssl.create_default_context())
    return smtp


def _recipients(message: OutgoingMessage) -> Sequence[str]:
    to = message.spec.get("to")
    return [str(each) for each in to] if isinstance(to, list | tuple) else [str(to or "")]


def _to_one_line(text: str) -> str:
    """Return the text for a header. The library decodes words such as `=?utf-8?q?=0ABcc:?=`, which hold a newline."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).replace("=?", "= ?").split())


def _body_text(text: str) -> str:
    """Half a surrogate pair cannot be sent."""
    return text.encode("utf-8", "replace").decode()
