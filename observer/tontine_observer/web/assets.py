"""The page and its files, all of them Tontine's own to serve, and the headers that keep a browser
to them."""

from __future__ import annotations

import html
from importlib.resources import files
from string import Template

_STATIC = files(__package__) / "static"
_TYPES = {
    "page.js": "text/javascript",
    "page.css": "text/css",
    "xterm.js": "text/javascript",
    "xterm.css": "text/css",
    "addon-fit.js": "text/javascript",
    "addon-unicode11.js": "text/javascript",
    "DejaVuSansMono.woff2": "font/woff2",
    "DejaVuSansMono-Bold.woff2": "font/woff2",
    "LICENSES.txt": "text/plain",
}
HEADERS = {
    # Styles may be inline because the terminal writes its colours so; scripts may not.
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src "
        "'none'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


def page(database: str) -> str:
    """The page, for an observer of that database."""
    template = Template((_STATIC / "index.html").read_text("utf-8"))
    return template.substitute(database=html.escape(database))


def find(name: str) -> tuple[bytes, str] | None:
    """A file of the page, and its type."""
    return ((_STATIC / name).read_bytes(), _TYPES[name]) if name in _TYPES else None
