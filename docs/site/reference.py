"""What the API reference must hold: every public name, each with words of its own."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

PUBLIC = ("tontine", "tontine.testing", "tontine.otel")

log = logging.getLogger(__name__)


def public_names() -> Iterator[str]:
    """All that users may import, in full."""
    for name in PUBLIC:
        yield from (f"{name}.{one}" for one in importlib.import_module(name).__all__)


def refuse_silence(_: Sphinx, what: str, name: str, obj: Any, __: Any, lines: list[str]) -> None:
    """A public name without a docstring, or with nothing but that of what it stands on, is a
    warning."""
    inherited = isinstance(obj, type) and obj.__doc__ is None
    if what != "module" and (inherited or not "".join(lines).strip()):
        log.warning("%s has no docstring: say in a sentence what it is", name, type="reference")


def shorten_words(
    _: Sphinx,
    what: str,  # noqa: ARG001
    name: str,  # noqa: ARG001
    obj: Any,  # noqa: ARG001
    options: Any,  # noqa: ARG001
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Sphinx 9.0 shows how it keeps an alias that is part of a union, and not its name."""
    return tuple(
        one and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", one)
        for one in (signature, returns)
    )  # type: ignore[return-value]


def miss_none(_: Sphinx, env: BuildEnvironment) -> None:
    """Every public name has a place on a page of docs/api/."""
    known = env.domains.python_domain.objects
    for name in public_names():
        if name not in known:
            log.warning("%s is on no page of docs/api/", name, type="reference")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", refuse_silence)
    app.connect("autodoc-process-signature", shorten_words)
    app.connect("env-check-consistency", miss_none)
    return {"parallel_read_safe": True}
