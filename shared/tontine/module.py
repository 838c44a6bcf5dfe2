"""Modules and tasks: how a user's function gets a name, and how a name finds its function."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar, overload

from .backoff import STANDARD, Wait
from .config import seconds
from .errors import ConfigError, Reject, Retry, UnknownTask
from .function import callee, is_async, misfit_inside, name_of, plain_names, signature_of
from .hooks import Hooks, joined
from .misnamed import nearest, nearest_file, nearest_module
from .origin import Origin, origin_of
from .records import task_key
from .records.job import LONGEST_TIMEOUT
from .records.schedule import Missed, Overlap, Schedule
from .stages import OUTPUT_LIMIT, Kind, Stage, Staged, check_stage, staged
from .states import NOTHING, State

OnLost = Literal["retry", "fail"]
Errors = tuple[type[BaseException], ...]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Task:
    """One function of a module and how its jobs are treated."""

    name: str
    """In full, like `shop.resize`."""
    function: Callable[..., Any]
    """What is called."""
    max_attempts: int = 1
    """How many attempts may fail."""
    timeout: float | None = None
    """Seconds that an attempt may take."""
    on_lost: OnLost = "retry"
    """What becomes of a job whose worker died while it ran."""
    backoff: Wait = STANDARD
    """How long to wait before the next attempt."""
    retry_on: Errors | None = None
    """Only these are tried again; None is all."""
    give_up_on: Errors = ()
    """These never are."""
    saves: bool = False
    """Whether it may call `current_job().save(...)`."""
    staged: Staged | None = None
    """Its stages, if it is made of some."""
    is_async: bool = field(init=False)
    """Whether it is awaited."""
    _names: tuple[frozenset[str], frozenset[str]] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", is_async(self.function))
        object.__setattr__(self, "_names", plain_names(self.function))

    def misfit(self, args: Mapping[str, Any]) -> str | None:
        """Why these arguments do not fit the function's signature; None when they do."""
        names = self._names
        if names is not None and isinstance(args, dict) and names[0] <= args.keys() <= names[1]:
            return None
        signature = signature_of(self.function)
        try:
            signature.bind(**args)
        except TypeError as error:
            return (
                f"arguments do not fit {self.name}{signature}: "
                f"{error}{self._misnamed(args, str(error))}"
            )
        return None

    def _misnamed(self, args: Mapping[str, Any], told: str) -> str:
        """Which arguments it does not take, and what was meant by them: Python names the first
        mistake only."""
        if self._names is None or not isinstance(args, Mapping):
            return ""
        unknown = sorted(str(name) for name in args if name not in self._names[1])
        untold = "".join(f"; it takes no {name!r}" for name in unknown if repr(name) not in told)
        near = {name: nearest(name, self._names[1] - args.keys()) for name in unknown}
        meant = ", ".join(f"{field!r} instead of {name!r}" for name, field in near.items() if field)
        return untold + (f" (was {meant} meant?)" if meant else "")

    def misfit_inside(self, error: BaseException) -> str | None:
        """Why arguments that fit the function did not fit what it wraps, if that is what this error
        says."""
        reason = misfit_inside(self.function, error)
        return None if reason is None else f"arguments do not fit {self.name}{reason}"

    def retries(self, error: BaseException) -> bool:
        """Whether another attempt may help after this error."""
        if isinstance(error, Retry | Reject):
            return isinstance(error, Retry)
        if isinstance(error, self.give_up_on):
            return False
        return self.retry_on is None or isinstance(error, self.retry_on)


_tasks_of: dict[int, list[Task]] = {}
"""All tasks of this process by the identity of their functions, which they keep alive."""


def _seconds(name: str, given: float | str) -> float:
    """A duration; what is none is told with the name of the argument."""
    try:
        return seconds(given)
    except ConfigError as error:
        raise ConfigError(f"{name}={error}") from None


def _errors(name: str, given: Any) -> Errors:
    """Exception classes, one or many."""
    many = tuple(given) if isinstance(given, tuple | list | set | frozenset) else (given,)
    for one in many:
        if not isinstance(one, type) or not issubclass(one, BaseException):
            raise ConfigError(
                f"{name} takes exception classes, like {name}=(ConnectionError,), not {one!r}"
            )
        if issubclass(one, Retry | Reject):
            raise ConfigError(f"{name} cannot have {one.__name__}: raising that decides for itself")
    return many


def _retry_rules(retry_on: Any, give_up_on: Any) -> tuple[Errors | None, Errors]:
    """Both as they are kept; `ConfigError` where one undoes what the other says."""
    wanted = None if retry_on is None else _errors("retry_on", retry_on)
    unwanted = _errors("give_up_on", give_up_on)
    if wanted == ():
        raise ConfigError("retry_on=() would try nothing again: leave max_attempts at 1 instead")
    for one in wanted or ():
        if issubclass(one, unwanted):
            raise ConfigError(
                f"{one.__name__} is in retry_on, and give_up_on never tries it again: keep one "
                "of them"
            )
    return wanted, unwanted


def _limits(max_attempts: int, on_lost: str, timeout: float | str | None) -> float | None:
    """The time limit of a task in seconds; `ConfigError` where it, or another limit, cannot be
    one."""
    if max_attempts < 1:
        raise ConfigError(
            f"max_attempts={max_attempts} cannot work: a job needs at least one attempt"
        )
    if on_lost not in ("retry", "fail"):
        raise ConfigError(f"on_lost={on_lost!r} is neither 'retry' nor 'fail'")
    return _time_limit(timeout)


def _time_limit(timeout: float | str | None) -> float | None:
    limit = None if timeout is None else _seconds("timeout", timeout)
    if limit is not None and not 0 < limit <= LONGEST_TIMEOUT:
        raise ConfigError(
            f"timeout={timeout!r} cannot work: give a time above zero and below a year, or none"
        )
    return limit


class Stages:
    """The stages of one task, as they are declared: `@orders.extract`, or
    `@orders.transform(timeout=60)`."""

    def __init__(self, task: str, make: Callable[[Sequence[Stage]], None]) -> None:
        self.task = task
        """The task's full name, like `shop.orders`."""
        self._make = make
        self._stages: list[Stage] = []

    @overload
    def stage(self, function: Function, /) -> Function: ...
    @overload
    def stage(
        self, *, name: str | None = None, timeout: float | str | None = None
    ) -> Callable[[Function], Function]: ...
    def stage(
        self, function: Any = None, *, name: str | None = None, timeout: float | str | None = None
    ) -> Any:
        """The next stage, sync or async; the function itself stays callable as it was."""
        return self._declare("stage", function, name, timeout)

    @overload
    def extract(self, function: Function, /) -> Function: ...
    @overload
    def extract(
        self, *, name: str | None = None, timeout: float | str | None = None
    ) -> Callable[[Function], Function]: ...
    def extract(
        self, function: Any = None, *, name: str | None = None, timeout: float | str | None = None
    ) -> Any:
        """A stage that gets something from elsewhere; it comes before any transform or load."""
        return self._declare("extract", function, name, timeout)

    @overload
    def transform(self, function: Function, /) -> Function: ...
    @overload
    def transform(
        self, *, name: str | None = None, timeout: float | str | None = None
    ) -> Callable[[Function], Function]: ...
    def transform(
        self, function: Any = None, *, name: str | None = None, timeout: float | str | None = None
    ) -> Any:
        """A stage that makes something else of it; it comes before any load."""
        return self._declare("transform", function, name, timeout)

    @overload
    def load(self, function: Function, /) -> Function: ...
    @overload
    def load(
        self, *, name: str | None = None, timeout: float | str | None = None
    ) -> Callable[[Function], Function]: ...
    def load(
        self, function: Any = None, *, name: str | None = None, timeout: float | str | None = None
    ) -> Any:
        """A stage that brings it where it belongs."""
        return self._declare("load", function, name, timeout)

    def __call__(self, **args: Any) -> Any:
        """Run all stages here, one after another, and store nothing: for tests."""
        return staged(self.task, self.declared(), OUTPUT_LIMIT)(**args)

    def declared(self) -> list[Stage]:
        """All of them, in their order; a ConfigError if there is none."""
        if not self._stages:
            raise ConfigError(f"{self.task} has no stage: write @....stage above a function")
        return self._stages

    def _declare(
        self, kind: Kind, function: Any, name: str | None, timeout: float | str | None
    ) -> Any:
        limit = _time_limit(timeout)

        def add(function: Any) -> Any:
            called = callee(function, takes_more=bool(self._stages))
            stage = Stage(name or name_of(called), called, kind, limit)
            if not stage.name.isidentifier():
                raise ConfigError(f"{stage.name!r} cannot name a stage: use letters, digits and _")
            check_stage(self.task, self._stages, stage)
            self._stages.append(stage)
            self._make(self._stages)
            return function

        return add if function is None else add(function)


@dataclass(slots=True)
class Module(Hooks):
    """A named set of tasks, with a version and authors; nodes announce the modules they have."""

    name: str
    """The first part of its tasks' names."""
    version: str = "0"
    """Shown by nodes; of two versions that declare schedules the newer has its way."""
    authors: Sequence[str] = ()
    """Whom to ask about it, best with an address."""
    tasks: dict[str, Task] = field(default_factory=dict, init=False)
    """Its tasks by their full names."""
    everywhere: Hooks = field(default_factory=Hooks, init=False, repr=False)
    """Hooks for the jobs of all modules that a worker has beside this one."""
    _scheduled: list[tuple[Callable[..., Any], str | None, Schedule]] = field(
        default_factory=list, init=False
    )
    _stages: list[Stages] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.name or not all(part.isidentifier() for part in self.name.split(".")):
            raise ConfigError(
                f"{self.name!r} cannot name a module: use letters, digits and _ (dots between "
                "parts)"
            )

    @overload
    def task(self, function: Function, /) -> Function: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        max_attempts: int = 1,
        timeout: float | str | None = None,
        on_lost: OnLost = "retry",
        backoff: Wait = STANDARD,
        retry_on: type[BaseException] | Errors | None = None,
        give_up_on: type[BaseException] | Errors = (),
        saves: bool = False,
    ) -> Callable[[Function], Function]: ...

    def task(
        self,
        function: Any = None,
        *,
        name: str | None = None,
        max_attempts: int = 1,
        timeout: float | str | None = None,
        on_lost: OnLost = "retry",
        backoff: Wait = STANDARD,
        retry_on: type[BaseException] | Errors | None = None,
        give_up_on: type[BaseException] | Errors = (),
        saves: bool = False,
    ) -> Any:
        """Make a function a task, sync or async: `@module.task`, `@module.task(max_attempts=4)`.

        The function itself stays callable as it was. `max_attempts` counts attempts that raise
        (default 1: running code twice is its author's decision); `on_lost` says what becomes of a
        job whose worker died while it ran; `backoff` is any of tenacity's wait strategies. With
        `retry_on` only these exceptions are tried again, those of `give_up_on` never are. With
        `saves` it may keep something for its next attempt, `current_job().save(...)`.
        """
        limit = _limits(max_attempts, on_lost, timeout)
        rules = _retry_rules(retry_on, give_up_on)

        def add(function: Any) -> Any:
            called = callee(function)
            full = f"{self.name}.{name or name_of(called)}"
            self._refuse_double(full)
            task = Task(full, called, max_attempts, limit, on_lost, backoff, *rules, saves)
            self.tasks[full] = task
            _tasks_of.setdefault(id(called), []).append(task)
            return function

        return add if function is None else add(function)

    def stages(
        self,
        name: str,
        *,
        max_attempts: int = 1,
        timeout: float | str | None = None,
        on_lost: OnLost = "retry",
        backoff: Wait = STANDARD,
        retry_on: type[BaseException] | Errors | None = None,
        give_up_on: type[BaseException] | Errors = (),
        output_limit: int = OUTPUT_LIMIT,
    ) -> Stages:
        """A task of several functions, `orders = module.stages("orders")`, then `@orders.extract`,
        `@orders.transform` and `@orders.load`, or `@orders.stage` for each.

        Each gets the output of the one before as its first argument, and the job's arguments that
        it names. Outputs are stored: another attempt begins at the first stage that is not done.
        `timeout` bounds an attempt; an output may have `output_limit` bytes.
        """
        if not name.isidentifier():
            raise ConfigError(f"{name!r} cannot name a task: use letters, digits and _")
        full = f"{self.name}.{name}"
        self._refuse_double(full)
        limit = _limits(max_attempts, on_lost, timeout)
        rules = _retry_rules(retry_on, give_up_on)
        if output_limit < 1:
            raise ConfigError(f"output_limit={output_limit} cannot work: give a number of bytes")

        def make(stages: Sequence[Stage]) -> None:
            whole = staged(name, stages, output_limit)
            task = Task(full, whole, max_attempts, limit, on_lost, backoff, *rules, True, whole)
            self.tasks[full] = task
            _tasks_of[id(made)] = [task]

        made = Stages(full, make)
        self._stages.append(made)
        return made

    def state(self, name: str, default: Any = NOTHING) -> State:
        """A named state, which `tontine state set MODULE/NAME FILE` sets; in a task its ``.value``
        is what it was when the job began, ``.version`` the number of that.

        Without one, and without a `default`, asking for the value is a `NoState`.
        """
        return State(self.name, name, default)

    def _refuse_double(self, full: str) -> None:
        if full in self.tasks or full in (one.task for one in self._stages):
            raise ConfigError(f"task {full} is defined twice in module {self.name!r}")

    def schedule(
        self,
        *,
        cron: str | None = None,
        every: float | str | None = None,
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        timezone: str = "UTC",
        missed: Missed = "once",
        overlap: Overlap = "queue",
        max_age: float | str | None = None,
    ) -> Callable[[Function], Function]:
        """Run a task again and again, `@module.schedule(cron="0 3 * * *")` above or below
        `@module.task`.

        Nodes that load the module make the schedule known, once. It is named after its task unless
        `name` says otherwise; a task may have several, with `args` of their own.
        """
        interval = None if every is None else _seconds("every", every)
        age = None if max_age is None else _seconds("max_age", max_age)

        def add(function: Any) -> Any:
            task = f"{self.name}.{function.__name__}"
            given = dict(args or {})
            wanted = Schedule(
                name or task, task, given, cron, interval, timezone, missed, None, overlap, age
            )
            try:
                wanted.check()
            except ConfigError as error:
                raise ConfigError(f"the schedule of {task} cannot work: {error}") from None
            self._scheduled.append((function, name, wanted))
            return function

        return add

    def schedules(self) -> list[Schedule]:
        """The schedules that it declares; a ConfigError where one has no task, or arguments that do
        not fit."""
        found: dict[str, Schedule] = {}
        for function, name, wanted in self._scheduled:
            task = next((one for one in self.tasks.values() if one.function is function), None)
            if task is None:
                raise ConfigError(
                    f"{wanted.task} has a schedule but is no task: write @{self.name}.task above "
                    "it, too"
                )
            one = replace(wanted, name=name or task.name, task=task.name).declared_by(
                self.name, self.version
            )
            if reason := task.misfit(one.args):
                raise ConfigError(f"the schedule {one.name!r} can never run: {reason}")
            if one.name in found:
                raise ConfigError(
                    f"the schedule {one.name!r} is declared twice: give one of them a `name`"
                )
            found[one.name] = one
        return list(found.values())

    def describe(self) -> dict[str, Any]:
        """The module as the node's record shows it."""
        described: dict[str, Any] = {
            "name": self.name,
            "version": self.version,
            "authors": list(self.authors),
            "tasks": sorted(self.tasks),
        }
        if self._scheduled:
            described["schedules"] = sorted(one.name for one in self.schedules())
        if self._stages:
            described["stages"] = [
                {"task": one.task, "names": [stage.name for stage in one.declared()]}
                for one in self._stages
            ]
        return described


@dataclass(frozen=True, slots=True)
class Library:
    """All tasks of some modules, by name."""

    modules: tuple[Module, ...]
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Where each comes from, by its name; nothing for those that nobody had to import."""

    def find(self, key: str) -> Task:
        """The task that a job's task key names, in a version inside its range."""
        name, wanted = task_key.name_of(key), task_key.range_of(key)
        for module in self.modules:
            if name in module.tasks and task_key.fits(key, module.version):
                return module.tasks[name]
        inside = "" if wanted is None else f" in a version inside {wanted}"
        raise UnknownTask(f"no module here has a task named {name!r}{inside}")

    def describe(self) -> list[dict[str, Any]]:
        """The modules as a worker announces them."""
        return [module.describe() | self._origin(module) for module in self.modules]

    def _origin(self, module: Module) -> dict[str, Any]:
        origin = self.origins.get(module.name)
        return {} if origin is None else {"source": origin.source, "digest": origin.digest}

    def start_hooks(self) -> list[Callable[[], Any]]:
        """What a worker calls before its first job."""
        return [
            hook
            for module in self.modules
            for hook in (*module.everywhere.started, *module.started)
        ]

    def hooks(self) -> dict[str, Hooks]:
        """What a worker calls around jobs, by task; nothing for tasks without."""
        everywhere = [module.everywhere for module in self.modules]
        found: dict[str, Hooks] = {}
        for module in self.modules:
            hooks = joined(*everywhere, module)
            if hooks.around_jobs():
                found |= dict.fromkeys(module.tasks, hooks)
        return found


def tasks_of(function: Any) -> list[Task]:
    """The tasks that a function is; else those that what it wraps is."""
    while function is not None:
        if found := _tasks_of.get(id(function)):
            return found
        function = getattr(function, "__wrapped__", None)
    return []


def load(names: Iterable[str]) -> Library:
    """Import what `tontine node` was given: `package.module`, `package.module:name` or a path to a
    .py file."""
    found: dict[str, Module] = {}
    origins: dict[str, Origin] = {}
    for name in names:
        origin = origin_of(name)
        for module in _modules_in(name):
            origins.setdefault(module.name, origin)
            if found.setdefault(module.name, module) is not module:
                raise ConfigError(
                    f"two different modules are named {module.name!r}: rename one of them"
                )
    for module in found.values():
        module.schedules()  # what is wrong with them is told now
        for stages in module._stages:
            stages.declared()
    return Library(tuple(found.values()), origins)


def _modules_in(name: str) -> list[Module]:
    path, _, attribute = name.partition(":")
    return _modules_of(imported(path), name, attribute)


def imported(path: str) -> ModuleType:
    """What `package.module` or a path to a .py file names."""
    if path.endswith(".py"):
        file = Path(path)
        if not file.is_file():
            raise ConfigError(f"there is no file {path}{nearest_file(file)}")
        return _import_file(file)
    if not all(part.isidentifier() for part in path.split(".")):
        raise ConfigError(f"{path!r} is neither the name of a Python module nor a .py file")
    return _import(path)


def _import(path: str) -> ModuleType:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not f"{path}.".startswith(f"{missing}."):
            raise  # it is there, and imports something that is not
        raise ConfigError(
            f"there is no Python module {missing}{nearest_module(path, missing)}"
        ) from None


def _import_file(file: Path) -> ModuleType:
    """Import a file by its name, with its directory on the path, as Python runs a script."""
    directory = str(file.resolve().parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    imported = importlib.import_module(file.stem)
    origin = getattr(imported, "__file__", None)
    if origin is None or Path(origin).resolve() != file.resolve():
        raise ConfigError(
            f"{file} cannot be imported beside {origin or file.stem}, which has the same name: "
            "rename it"
        )
    return imported


def _modules_of(imported: ModuleType, name: str, attribute: str) -> list[Module]:
    path = imported.__name__
    if attribute:
        module = getattr(imported, attribute, None)
        if not isinstance(module, Module):
            raise ConfigError(f"{name!r}: {attribute} is not a tontine.Module in {path}")
        return [module]
    modules = [value for value in vars(imported).values() if isinstance(value, Module)]
    if not modules:
        raise ConfigError(
            f"{path} has no tontine.Module: write `{path.split('.')[-1]} = Module(...)` in it"
        )
    return modules
