"""A MongoDB URI as it may be shown: without its secrets, however malformed it is, and a text that
may quote it.

What is shown is what is known to be harmless; the rest of a URI is taken for a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, unquote, unquote_plus

HIDDEN = "***"

_PART = 4
"""So many characters of a secret in a row give something away; fewer are found in any text."""

_SCHEME = re.compile(r"[a-z][a-z+.-]{0,15}", re.IGNORECASE)
_HOST = re.compile(r"(?:\[[\w:.%]*\]|[\w.-]+|%2f[\w.%-]+)(?::(?P<port>\d{1,5}))?", re.IGNORECASE)
_HARMLESS = re.compile(
    r"""
    app name | auth (mechanism | source) | compressors | direct connection | fsync | j | journal
    | load balanced | max (connecting | pool size | staleness seconds) | min pool size
    | proxy (host | port | username)
    | read (concern level | preference | preference tags) | replica set | retry (reads | writes)
    | server monitoring mode | srv (max hosts | service name) | uuid representation | w
    | zlib compression level
    | (connect timeout | heartbeat frequency | local threshold | max idle time
    | server selection timeout
    | socket timeout | timeout | wait queue timeout) ms | wtimeout (ms)?
    | ssl | tls (allow invalid (certificates | hostnames) | ca file | certificate key file
    | crl file
    | disable ocsp endpoint check | insecure)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SECRET = re.compile(
    "auth_?mechanism_?properties|auto_?encryption.*|.*(pass|secret|token|credential).*",
    re.IGNORECASE,
)

_EXTERNAL = ("GSSAPI", "MONGODB-X509", "MONGODB-AWS", "MONGODB-OIDC")
"""Ways to authenticate whose users are in no database, whatever the URI's path is."""


def shown(uri: str) -> str:
    """The URI with its secrets replaced."""
    return _divide(uri)[0]


def database_of(uri: str) -> str | None:
    """The database that a URI names, if it is one for a queue."""
    place = uri.partition("?")[0].rpartition("://")[2].rpartition("@")[2]
    name = unquote(place.partition("/")[2]).partition(".")[0]
    return name if name and holds_a_queue(name) else None


def with_database(uri: str, database: str, txt_source: str | None = None) -> str:
    """The URI of another database there, for the same user: whose users' database the path named is
    named apart.

    `txt_source` is what the TXT record of a `mongodb+srv` URI says of that; it wins over the path.
    """
    scheme, mark, rest = uri.partition("://")
    place, _, options = rest.partition("?")
    address, _, path = place.partition("/")
    given = {
        name.lower(): value
        for name, _, value in (one.partition("=") for one in re.split("[&;]", options))
    }
    if "@" in address and "authsource" not in given:
        mechanism = given.get("authmechanism", "").upper()
        users = (
            txt_source
            or unquote(path).partition(".")[0]
            or ("$external" if mechanism == "PLAIN" else "admin")
        )
        if mechanism not in _EXTERNAL:
            options = "&".join(filter(None, (options, f"authSource={quote(users, safe='')}")))
    return f"{scheme}{mark}{address}/{quote(database, safe='')}{'?' if options else ''}{options}"


def holds_a_queue(database: str) -> bool:
    """The server's own databases hold none: where a URI names one, it is for the sake of its
    users."""
    return database not in ("admin", "local", "config")


def hide(text: str, uri: str) -> str:
    """A text that may quote the URI, or parts of it, with the secrets replaced: whole, in part,
    encoded or decoded."""
    harmless, secrets = _divide(uri)
    text = text.replace(uri, harmless)
    plain = _lower(text)
    covered = [False] * len(text)
    for form in {_lower(form) for secret in secrets for form in _forms(secret)}:
        size = min(_PART, len(form))
        parts = (
            {form[start : start + size] for start in range(len(form) - size + 1)}
            if size > 1
            else set()
        )
        for start in range(len(plain) - size + 1):
            if plain[start : start + size] in parts:
                covered[start : start + size] = [True] * size
    return "".join(_masked(text, covered))


def hide_all(text: str) -> str:
    """A text with the secrets of every URI in it replaced."""
    return re.sub(r"mongodb(\+srv)?://\S+", lambda found: shown(found[0]), text)


def _masked(text: str, covered: list[bool]) -> Iterator[str]:
    was_covered = False
    for character, is_covered in zip(text, covered, strict=True):
        if not is_covered:
            yield character
        elif not was_covered:
            yield HIDDEN
        was_covered = is_covered


def _forms(secret: str) -> Iterator[str]:
    """How a driver may quote it: as it is, decoded, and either as Python writes a string."""
    for form in (secret, unquote(secret), unquote_plus(secret)):
        yield form
        yield repr(form)[1:-1]


def _lower(text: str) -> str:
    # Drivers write hosts in lower case, and what they take for a host may be half a password. Each
    # keeps its place.
    return "".join(
        lower if len(lower := character.lower()) == 1 else character for character in text
    )


def _divide(uri: str) -> tuple[str, list[str]]:
    """What may be shown of a URI, and its secrets."""
    scheme, mark, rest = uri.partition("://") if "://" in uri else ("", "", uri)
    if mark and not _SCHEME.fullmatch(scheme):
        return HIDDEN, [uri]
    credentials, at, address = rest.rpartition("@")
    place, question, options = address.partition("?")
    # A `?` before the last `@`: which of both belongs to a secret cannot be told.
    if "?" in credentials or not all(map(_is_host, place.partition("/")[0].split(","))):
        return f"{scheme}{mark}{HIDDEN}", [rest]
    user, colon, password = credentials.partition(":")
    harmless, secrets = _divide_options(options)
    credentials = f"{user}:{HIDDEN}" if colon else user
    return f"{scheme}{mark}{credentials}{at}{place}{question}{harmless}", [
        *filter(None, [password]),
        *secrets,
    ]


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    return found is not None and int(found["port"] or 0) < 2**16


def _divide_options(options: str) -> tuple[str, list[str]]:
    pieces = re.split(r"([&;])", options)
    has_secret = any(_SECRET.fullmatch(piece.partition("=")[0]) for piece in pieces)
    shown: list[str] = []
    secrets: list[str] = []
    for piece in pieces:
        name, equals, value = piece.partition("=")
        if piece in ("", "&", ";") or (equals and _HARMLESS.fullmatch(name)):
            shown.append(piece)
        elif equals and (_SECRET.fullmatch(name) or not has_secret):
            shown.append(f"{name}={HIDDEN}")
            secrets.append(value)
        else:  # beside a secret, what nobody knows may be the rest of it: somebody wrote a bare `&`
            shown.append(HIDDEN)
            secrets.append(piece)
    return "".join(shown), [*filter(None, secrets)]
