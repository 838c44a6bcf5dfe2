"""`Plan`: jobs with an order between them, written in Python; `submit_plan` inserts its document.

A step among the arguments of another is what that one takes, and so comes after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .calls import AnyTask, TaskCall, named
from .config import Duration, seconds
from .errors import ConfigError
from .rules.plan_check import problem

Args = Mapping[str, Any] | None

_OTHER = re.compile(r"[^A-Za-z0-9_-]")


class _Item:
    """Stands for what each job of a mapped step gets."""

    def __repr__(self) -> str:
        return "ITEM"


ITEM: Any = _Item()
"""Among the arguments of `Plan.map`, the one that gets the item: `call(resize, photo=ITEM,
width=80)`. To type checkers it is of any type, so they know all the other arguments."""


@dataclass(frozen=True, slots=True)
class StepField:
    """One field of a step's result."""

    step: Step
    """Whose result."""
    name: str
    """Which field of it."""


@dataclass(frozen=True, slots=True)
class StepStream:
    """All results of a mapped step, read in pages while the task runs."""

    step: Step
    """Whose results."""


@dataclass(eq=False, slots=True)
class Step:
    """One step of a plan. As an argument of another step it stands for its result."""

    name: str
    """What it is called in its plan."""
    _plan: Plan = field(repr=False)
    _document: dict[str, Any] = field(repr=False)

    def __getitem__(self, field: str) -> StepField:
        """One field of its result; of a mapped step, a list of that field of each."""
        if not isinstance(field, str):
            raise ConfigError(f"a step's field is a text, like {self.name}['path'], not {field!r}")
        return StepField(self, field)

    def stream(self) -> StepStream:
        """The results of a mapped step, as an argument of another: its task gets a `Stream`, an
        iterator that reads them while it runs. There may be any number of them."""
        return StepStream(self)

    def undo(
        self, task: AnyTask, args: Args = None, *, when: Literal["done", "begun"] = "done"
    ) -> Step:
        """What undoes it, if the plan fails or is cancelled after it is done; with `when="begun"`
        also after an attempt that was not. Its arguments may take from this step and from what it
        comes after."""
        task_name, args = named(task, args)
        undo: dict[str, Any] = {"task": task_name, **self._plan._arguments(self.name, args)}
        if "stream" in undo:
            raise ConfigError(f"the undo of step {self.name} streams, but only steps can stream")
        if when != "done":
            undo["when"] = when
        self._document["undo"] = undo
        return self


Handle = Step | StepField


class Plan:
    """Jobs with an order between them: steps, what undoes them, and what comes at the very end."""

    def __init__(
        self,
        name: str = "",
        *,
        key: str | None = None,
        tenant: str | None = None,
        priority: int = 0,
        on_failure: Literal["finish", "cancel"] = "finish",
    ) -> None:
        """`on_failure` says what becomes of steps that run when another has failed: they may
        finish, or are cancelled. At most one unfinished plan has a `key`."""
        self.steps: dict[str, Step] = {}
        """Its steps by name."""
        given = {"name": name, "key": key, "tenant": tenant, "priority": priority}
        self._head: dict[str, Any] = {what: value for what, value in given.items() if value}
        if on_failure != "finish":
            self._head["on_failure"] = on_failure

    def step(
        self,
        task: AnyTask,
        args: Args = None,
        *,
        name: str | None = None,
        after: Step | Iterable[Step] = (),
        may_fail: bool = False,
        delay: Duration | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
    ) -> Step:
        """Add a step of one job. It comes after the steps among its arguments, and those in
        `after`; with `may_fail` the plan goes on without its result."""
        return self._add(task, args, name, after, may_fail, delay, max_attempts, timeout, {})

    def map(
        self,
        task: AnyTask,
        over: Handle | Sequence[Any],
        args: Args = None,
        *,
        as_: str | None = None,
        chunk: int = 1,
        at_once: int | None = None,
        name: str | None = None,
        after: Step | Iterable[Step] = (),
        may_fail: bool = False,
        delay: Duration | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
    ) -> Step:
        """Add a step of one job for each element of `over`: a list, a step's result, or, item by
        item, another mapped step. The argument `as_`, or the one given as `ITEM`, gets the element;
        with `chunk` a list of so many. At most `at_once` jobs of it are there at a time."""
        task, args, item = _without_item(task, args, as_)
        mapping: dict[str, Any] = {"map": self._over(over), "as": item}
        if chunk != 1:
            mapping["chunk"] = chunk
        if at_once is not None:
            mapping["at_once"] = at_once
        return self._add(task, args, name, after, may_fail, delay, max_attempts, timeout, mapping)

    def finally_(self, task: AnyTask, args: Args = None) -> None:
        """One job at the very end, however the plan ends."""
        task_name, args = named(task, args)
        _refuse_deeper(args, "an argument of `finally`")
        self._head["finally"] = {"task": task_name, "args": dict(args or {})}

    def returns(self, step: Step) -> None:
        """Say which step's result is the plan's; without, it is the last one's, if there is one
        last step."""
        self._head["returns"] = self._known(step)

    def document(self) -> dict[str, Any]:
        """What is inserted. A ConfigError says what cannot be a plan."""
        steps = {name: step._document for name, step in self.steps.items()}
        document = {**self._head, "steps": steps}
        if reason := problem(document):
            raise ConfigError(f"this cannot be a plan: {reason}")
        return document

    def __repr__(self) -> str:
        return f"Plan({self._head.get('name', '')!r}, {', '.join(self.steps)})"

    def _add(
        self,
        task: AnyTask,
        args: Args,
        name: str | None,
        after: Step | Iterable[Step],
        may_fail: bool,
        delay: Duration | None,
        max_attempts: int | None,
        timeout: Duration | None,
        mapping: Mapping[str, Any],
    ) -> Step:
        task_name, args = _named(task, args, mapping.get("as"))
        called = self._free(task_name) if name is None else name
        if called in self.steps:
            raise ConfigError(f"the plan has a step {called} already: give this one another name")
        document: dict[str, Any] = {"task": task_name, **self._arguments(called, args), **mapping}
        several = [after] if isinstance(after, Step) else after
        if names := [self._known(step) for step in several]:
            document["after"] = names
        if may_fail:
            document["may_fail"] = True
        limits = {"delay": delay, "timeout": timeout}
        document |= {what: seconds(value) for what, value in limits.items() if value is not None}
        if max_attempts is not None:
            document["max_attempts"] = max_attempts
        step = Step(called, self, document)
        self.steps[called] = step
        return step

    def _free(self, task: str) -> str:
        """The name of a task's function; a second one gets a number."""
        text = str(task)  # whatever it is: what is none is told where the plan is inserted
        own = _OTHER.sub("-", text.partition("@")[0].rpartition(".")[2])[:60] or "step"
        name, number = own, 2
        while name in self.steps:
            name, number = f"{own}-{number}", number + 1
        return name

    def _known(self, step: Any) -> str:
        if not isinstance(step, Step):
            raise ConfigError(
                f"a step is what plan.step(...) or plan.map(...) returned, not {step!r}"
            )
        if step._plan is not self:
            raise ConfigError(f"step {step.name} belongs to another plan")
        return step.name

    def _source(self, handle: Handle) -> str:
        if isinstance(handle, StepField):
            return f"{self._known(handle.step)}.{handle.name}"
        return self._known(handle)

    def _over(self, over: Handle | Sequence[Any]) -> Any:
        if isinstance(over, Step | StepField):
            return self._source(over)
        if isinstance(over, str | bytes | Mapping) or not isinstance(over, Iterable):
            raise ConfigError(f"a map goes over a step or a list, not {type(over).__name__}")
        elements = list(over)
        _refuse_deeper(elements, "what it maps over")
        return elements

    def _arguments(self, name: str, args: Args) -> dict[str, Any]:
        """What is given, and what is taken from other steps."""
        if args is not None and not isinstance(args, Mapping):
            raise ConfigError(
                f"step {name}: arguments are a mapping of keywords, not {type(args).__name__}"
            )
        given: dict[str, Any] = {}
        take: dict[str, Any] = {}
        stream: dict[str, Any] = {}
        for arg, value in (args or {}).items():
            if isinstance(value, Step | StepField):
                take[arg] = self._source(value)
            elif _is_all_steps(value):
                take[arg] = [self._source(one) for one in value]
            elif isinstance(value, StepStream):
                stream[arg] = self._known(value.step)
            else:
                _refuse_deeper(value, f"argument {arg} of step {name}")
                given[arg] = value
        found = {"args": given, "take": take, "stream": stream}
        return {what: value for what, value in found.items() if value}


@dataclass(frozen=True, slots=True)
class More:
    """Returned by a task of a plan: its result, and steps to add to the plan, which come before
    whatever comes after this one."""

    result: Any
    """The job's result."""
    plan: Plan
    """The steps to add."""

    def steps(self) -> dict[str, Any]:
        """The documents of the steps to add. A ConfigError says why they cannot be."""
        document = self.plan.document()
        if others := sorted(document.keys() - {"name", "steps"}):
            raise ConfigError(
                f"their plan has `{others[0]}`, which only the plan can have that they are added to"
            )
        steps: dict[str, Any] = document["steps"]
        return steps


def _is_all_steps(value: Any) -> bool:
    is_list = isinstance(value, list | tuple) and bool(value)
    return is_list and all(isinstance(one, Step | StepField) for one in value)


def _refuse_deeper(value: Any, where: str) -> None:
    """A step inside of a value would be stored as whatever it is in Python."""
    if value is ITEM:
        raise ConfigError(f"{where} is ITEM, or has it inside: only an argument of a map can be")
    if isinstance(value, Step | StepField | StepStream):
        name = value.name if isinstance(value, Step) else value.step.name
        raise ConfigError(
            f"{where} has step {name} inside of something else: only an argument itself can be a "
            "step, or a list of steps"
        )
    if isinstance(value, Mapping):
        for one in value.values():
            _refuse_deeper(one, where)
    elif isinstance(value, list | tuple | set):
        for one in value:
            _refuse_deeper(one, where)


def _without_item(task: AnyTask, args: Args, as_: str | None) -> tuple[AnyTask, Args, str]:
    """The task and its arguments but the one that gets the item, and the name of that."""
    given = task.args if isinstance(task, TaskCall) else args
    if not isinstance(given, Mapping):
        given = {}
    marked = [arg for arg, value in given.items() if value is ITEM]
    names = list(dict.fromkeys([*marked, *([] if as_ is None else [as_])]))
    if not names:
        raise ConfigError("a map has one argument that gets the item: give `as_`, or ITEM for it")
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(names)} cannot both get the item of a map")
    if marked:
        rest = {arg: value for arg, value in given.items() if value is not ITEM}
        if isinstance(task, TaskCall):
            return replace(task, args=rest), args, names[0]
        return task, rest, names[0]
    return task, args, names[0]


def _named(task: AnyTask, args: Args, item: str | None) -> tuple[str, Args]:
    """The task's name and the arguments; of a mapped step one more comes with each item."""
    if item is None or not (callable(task) or isinstance(task, TaskCall)):
        return named(task, args)
    if isinstance(task, TaskCall):
        if reason := task.misfit({**task.args, item: None}):
            raise ConfigError(f"this cannot be a job: {reason}")
        return named(task, args)
    name, _ = named(task, {**(args or {}), item: None})
    return name, args
