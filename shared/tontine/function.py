"""What can be a task: a function that takes keyword arguments and returns once. Judged by what is
really called.

A hook is judged alike, but called by place.
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable
from typing import Any

from .errors import ConfigError


def callee(function: Any, *, takes_more: bool = False) -> Callable[..., Any]:
    """What a call of it calls; `ConfigError` if that cannot be a task. One that `takes_more` than a
    job's arguments may take that by place."""
    if isinstance(function, staticmethod):
        function = function.__func__
    if isinstance(function, type) or not callable(function):
        kind = "a class" if isinstance(function, type) else f"of type {type(function).__name__}"
        raise ConfigError(
            f"{_named(function)} cannot be a task: it is {kind}, and a task is a function"
        )
    if _is_any(inspect.isgeneratorfunction, function) or _is_any(
        inspect.isasyncgenfunction, function
    ):
        raise ConfigError(
            f"{_named(function)} cannot be a task: it is a generator, and calling it runs "
            "nothing of it; "
            "return a list instead of yielding"
        )
    if not takes_more:
        _check_parameters(function)
    return function  # type: ignore[no-any-return]


def check_hook(function: Any, kind: str, given: tuple[str, ...]) -> None:
    """Refuse what cannot be a hook: it is called by place with what is `given`, and nothing
    else."""
    unfit = f"{_named(function)} cannot be a hook `{kind}`"
    if not callable(function):
        raise ConfigError(
            f"{unfit}: it is of type {type(function).__name__}, and a hook is a function"
        )
    if _is_any(inspect.isgeneratorfunction, function) or _is_any(
        inspect.isasyncgenfunction, function
    ):
        raise ConfigError(f"{unfit}: it is a generator, and calling it runs nothing of it")
    try:
        signature = signature_of(function)
    except (TypeError, ValueError):  # Python does not know, so neither do we
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        name = getattr(function, "__name__", "hook")
        raise ConfigError(
            f"{unfit}: it is called as {name}({', '.join(given)}), and that does not fit "
            f"{name}{signature}: {error}"
        ) from None


def name_of(function: Any) -> str:
    """The name that a task gets from its function; `ConfigError` if it has none that could be
    one."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        kind = "a lambda" if name == "<lambda>" else type(function).__name__
        raise ConfigError(f"a task made of {kind} needs a name: `module.task(name=...)(...)`")
    return str(name)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine, also where a partial or an object with an async
    `__call__` is called."""
    return _is_any(inspect.iscoroutinefunction, function)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Of what is really called: `functools.wraps` shows the signature of something else."""
    return inspect.signature(function, follow_wrapped=False)


def misfit_inside(function: Callable[..., Any], error: BaseException) -> str | None:
    """What a `TypeError` says where a wrapper called what it wraps with arguments that do not fit
    it; else None.

    A wrapper may change arguments, so nobody can tell before.
    """
    if not isinstance(error, TypeError) or not hasattr(function, "__wrapped__"):
        return None
    inside = inspect.unwrap(function)
    if not inspect.isfunction(inside) or not str(error).startswith(f"{inside.__qualname__}() "):
        return None
    if any(frame.f_code is inside.__code__ for frame, _ in traceback.walk_tb(error.__traceback__)):
        return None  # it was called, and called something else wrongly
    return f"{inspect.signature(inside)}: {error}"


def plain_names(function: Callable[..., Any]) -> tuple[frozenset[str], frozenset[str]] | None:
    """The names that a call must give, and those that it may; None if the signature is more than
    names."""
    parameters = signature_of(function).parameters.values()
    if not all(one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) for one in parameters):
        return None
    needed = frozenset(one.name for one in parameters if one.default is one.empty)
    return needed, frozenset(one.name for one in parameters)


def _check_parameters(function: Callable[..., Any]) -> None:
    try:
        parameters = list(signature_of(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{_named(function)} cannot be a task: Python does not know its arguments ({error})"
        ) from None
    if only := [one.name for one in parameters if one.kind is one.POSITIONAL_ONLY]:
        raise ConfigError(
            f"{_named(function)} cannot be a task: jobs give their arguments by name, and "
            f"{', '.join(only)} can be "
            "given only by place (before the `/`)"
        )
    if parameters and parameters[0].name in ("self", "cls") and _is_in_class(function):
        raise ConfigError(
            f"{_named(function)} cannot be a task: it is a method, and a job has no object to "
            "call it on; "
            "make it a function, or a static method"
        )


def _is_in_class(function: Any) -> bool:
    *outer, _ = getattr(function, "__qualname__", "").split(".") or [""]
    return inspect.isfunction(function) and bool(outer) and outer[-1] != "<locals>"


def _is_any(question: Callable[[Any], bool], function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return question(function) or (
        not inspect.isroutine(function) and question(type(function).__call__)
    )


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function)[:100])
