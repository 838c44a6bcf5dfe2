"""A task as whoever submits it may name it: by its name, as itself, or as a call with its
arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from inspect import BoundArguments, Parameter
from typing import Any, ParamSpec

from .errors import ConfigError
from .function import signature_of
from .module import Task, tasks_of

P = ParamSpec("P")
Args = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class TaskCall:
    """A task and the arguments of one job."""

    task: str
    """Its name, like `shop.resize`."""
    args: Mapping[str, Any]
    """By their names."""
    _task: Task | None = field(default=None, repr=False, compare=False)

    def misfit(self, args: Mapping[str, Any]) -> str | None:
        """Why the task cannot take these arguments, as far as it is known."""
        return None if self._task is None else self._task.misfit(args)


AnyTask = str | TaskCall | Callable[..., Any]
"""What `submit` takes for a task."""


def call(task: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> TaskCall:
    """A task with its arguments, for `submit`: type checkers know what the task takes.

    Nothing is run. Arguments that do not fit are a `TypeError`, as those of the function would be.
    """
    one = _task_behind(task)
    if not args:
        if reason := one.misfit(kwargs):
            raise TypeError(reason)
        return TaskCall(one.name, kwargs, one)
    signature = signature_of(one.function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"arguments do not fit {one.name}{signature}: {error}") from None
    return TaskCall(one.name, _by_name(bound, one), one)


def named(task: AnyTask, args: Args) -> tuple[str, Args]:
    """The name of the task and the arguments of the job. What else is wrong with them is said where
    it is inserted."""
    if isinstance(task, TaskCall):
        if args is not None:
            raise ConfigError(f"the call of {task.task} has its arguments already: give no others")
        return task.task, task.args
    if isinstance(task, str) or not callable(task):
        return task, args
    one = _task_behind(task)
    if (args is None or isinstance(args, Mapping)) and (reason := one.misfit(args or {})):
        raise ConfigError(f"this cannot be a job: {reason}")
    return one.name, args


def named_many(task: AnyTask, many: Iterable[Args | TaskCall]) -> tuple[str, Iterator[Args]]:
    """The name of the task and the arguments of each job; these may be calls of that task."""
    if isinstance(task, TaskCall):
        raise ConfigError(
            f"submit_many takes a task and many arguments: submit_many({task.task!r}, [...])"
        )
    name = task if isinstance(task, str) or not callable(task) else _task_behind(task).name
    return name, (_args_of(name, one) for one in many)


def _args_of(name: str, one: Args | TaskCall) -> Args:
    if not isinstance(one, TaskCall):
        return one
    if one.task != name:
        raise ConfigError(f"this is a call of {one.task}, among jobs of {name}")
    return one.args


def _task_behind(function: Callable[..., Any]) -> Task:
    found = tasks_of(function)
    shown = getattr(function, "__name__", None) or repr(function)[:100]
    if not found:
        raise ConfigError(
            f"{shown} is no task: write @module.task above it, or give the task by name, like "
            'submit("shop.resize", ...)'
        )
    if len(found) > 1:
        names = " and ".join(one.name for one in found)
        raise ConfigError(f"{shown} is {names}: say which, by name")
    return found[0]


def _by_name(bound: BoundArguments, task: Task) -> dict[str, Any]:
    args: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is Parameter.VAR_POSITIONAL:
            raise TypeError(f"{task.name} gets its arguments by name, and these have none: {value}")
        if kind is Parameter.VAR_KEYWORD:
            args |= value
        else:
            args[name] = value
    return args
