"""A task in stages, as it is declared: extract, transform, load as one job. Each gets the output of
the one before, and what is done is not done again."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Literal

import bson
from bson.codec_options import CodecOptions

from .errors import ConfigError
from .function import is_async, signature_of
from .records.stage import AT_MOST

OUTPUT_LIMIT = 64 * 1024 * 1024
"""Bytes of an output, unless the task says otherwise."""

Kind = Literal["stage", "extract", "transform", "load"]
_CODEC: CodecOptions[Any] = CodecOptions(tz_aware=True, uuid_representation=4)
_ORDER = ("extract", "transform", "load")


@dataclass(frozen=True, slots=True)
class Stage:
    """One function of a staged task."""

    name: str
    """Unique in its task; what was stored is found by it again."""
    function: Callable[..., Any]
    """What is called."""
    kind: Kind = "stage"
    """What it was declared as."""
    timeout: float | None = None
    """Seconds that it may take."""
    is_async: bool = field(init=False)
    """Whether it is awaited."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", is_async(self.function))

    def parameters(self, place: int) -> list[inspect.Parameter]:
        """Those that are arguments of the job: all of the first stage's, of any other all but the
        first."""
        known = list(signature_of(self.function).parameters.values())
        return known[1:] if place else known

    def call(self, place: int, args: Mapping[str, Any], before: Any) -> Any:
        """Call it with the output before, if there is one, and those of the job's arguments that it
        names."""
        parameters = self.parameters(place)
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        names = {one.name for one in parameters}
        given = {name: value for name, value in args.items() if takes_any or name in names}
        return self.function(before, **given) if place else self.function(**given)


class Staged:
    """All stages of a task. Called, it runs them one after another and stores nothing."""

    def __init__(self, name: str, stages: Sequence[Stage], output_limit: int) -> None:
        self.__name__ = self.__qualname__ = name
        self.__signature__ = _signature(stages)
        self.stages = tuple(stages)
        self.output_limit = output_limit

    @property
    def names(self) -> list[str]:
        return [stage.name for stage in self.stages]

    def __call__(self, **args: Any) -> Any:
        value: Any = None
        for place, stage in enumerate(self.stages):
            called = stage.call(place, args, _as_stored(value))
            value = _await_apart(called) if stage.is_async else called
        return value


class AsyncStaged(Staged):
    """The same where all stages are async."""

    async def __call__(self, **args: Any) -> Any:
        value: Any = None
        for place, stage in enumerate(self.stages):
            value = await stage.call(place, args, _as_stored(value))
        return value


def staged(name: str, stages: Sequence[Stage], output_limit: int) -> Staged:
    """What a task of these stages calls."""
    kind = AsyncStaged if all(stage.is_async for stage in stages) else Staged
    return kind(name, stages, output_limit)


def _as_stored(output: Any) -> Any:
    """An output as the next stage gets it where it is stored between."""
    return bson.decode(bson.encode({"r": output}, codec_options=_CODEC), _CODEC)["r"]


def _await_apart(coroutine: Any) -> Any:
    """Run a coroutine for code that has no event loop, or is inside of one."""
    context = copy_context()
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(context.run, asyncio.run, coroutine).result()


def _signature(stages: Sequence[Stage]) -> inspect.Signature:
    """The arguments of the job: what any of the stages names. One that any of them needs is
    needed."""
    found: dict[str, inspect.Parameter] = {}
    rest: inspect.Parameter | None = None
    for place, stage in enumerate(stages):
        for one in stage.parameters(place):
            if one.kind is one.VAR_KEYWORD:
                rest = rest or one
            elif one.kind is not one.VAR_POSITIONAL:
                known = found.get(one.name, one)
                is_needed = one.default is one.empty or known.default is one.empty
                default = one.empty if is_needed else known.default
                found[one.name] = known.replace(kind=one.KEYWORD_ONLY, default=default)
    return inspect.Signature([*found.values(), *([rest] if rest else [])])


def check_stage(task: str, stages: Sequence[Stage], new: Stage) -> None:
    """Refuse a stage that could not run where it is declared."""
    names = [stage.name for stage in stages]
    if new.name in names:
        raise ConfigError(f"stage {new.name} is defined twice in {task}: give one of them a `name`")
    if len(stages) >= AT_MOST:
        raise ConfigError(f"{task} has {AT_MOST} stages, and no more are kept: join some of them")
    if new.kind in _ORDER:
        later = [one for one in stages if one.kind in _ORDER[_ORDER.index(new.kind) + 1 :]]
        if later:
            raise ConfigError(
                f"{task}: {new.kind} {new.name} comes after {later[0].kind} {later[0].name}; the "
                "order is extract, transform, load (`.stage` is free of it)"
            )
    known = list(signature_of(new.function).parameters.values())
    if stages and not _takes_output(known):
        raise ConfigError(
            f"stage {new.name} of {task} takes no argument: it gets the output of {names[-1]} as "
            "its first"
        )
    if only := [one.name for one in new.parameters(len(stages)) if one.kind is _BY_PLACE]:
        raise ConfigError(
            f"stage {new.name} of {task}: jobs give their arguments by name, and "
            f"{', '.join(only)} can be given only by place (before the `/`)"
        )


_BY_PLACE = inspect.Parameter.POSITIONAL_ONLY


def _takes_output(parameters: Sequence[inspect.Parameter]) -> bool:
    return bool(parameters) and parameters[0].kind in (
        _BY_PLACE,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
