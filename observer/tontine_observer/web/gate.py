"""Who may come in: the one-time token, the sessions that came of it, and the Host and Origin a
browser must name."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from urllib.parse import urlsplit


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(slots=True)
class Gate:
    """A token admits one browser; then there is a new one."""

    names: frozenset[str]
    token: str = field(default_factory=_secret)
    cookie: str = field(default_factory=lambda: f"tontine-{secrets.token_hex(4)}")
    """Cookies belong to a host whatever its port: each server needs a name of its own for them."""
    _sessions: list[str] = field(default_factory=list)

    def admit(self, token: str) -> str | None:
        """A session for the token, which is used up by it; None for any other."""
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return None
        self.token = _secret()
        session = _secret()
        self._sessions.append(session)
        return session

    def knows(self, session: str) -> bool:
        # Every one of them is compared, so that the time taken tells nothing.
        return (
            sum(secrets.compare_digest(session.encode(), one.encode()) for one in self._sessions)
            > 0
        )

    def trusts_host(self, host: str) -> bool:
        """Whether the Host is a name of this server; the port may be another where one is
        forwarded."""
        try:
            return urlsplit(f"//{host}").hostname in self.names
        except ValueError:
            return False

    def trusts_origin(self, origin: str, host: str) -> bool:
        """Whether a socket is asked for by our own page: from the very Host that it is asked of."""
        try:
            asking = urlsplit(origin)
        except ValueError:
            return False
        return asking.scheme in ("http", "https") and asking.netloc.lower() == host.lower() != ""
