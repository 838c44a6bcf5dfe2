"""As much of Windows as can be had elsewhere. `python -m tests.support.windows COMMAND...` is `tontine COMMAND...`
there, `... -c CODE` runs Python.

What only POSIX has is taken away before anything of ours is imported: modules, names in `os` and `signal`, handlers
of signals in event loops. The standard library and what we depend on are there already, as built for this system.
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import importlib.abc
import os
import signal
import sys
import sysconfig
from typing import Any

import click
import cronsim
import orjson
import platformdirs
import psutil
import pymongo
import rich.console
import rich.table
import tenacity

READY = (asyncio.base_events, click, cronsim, orjson, platformdirs, psutil, pymongo, rich.console, rich.table, tenacity)
MODULES = frozenset({"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"})
OF_OS = (
    *("fork", "forkpty", "getegid", "geteuid", "getgid", "getloadavg", "getpgid", "getsid", "getuid", "killpg", "nice"),
    *("register_at_fork", "setsid", "setpgid", "uname", "wait", "waitid", "fchmod", "chown", "sched_getaffinity"),
    *("WNOHANG", "WEXITED", "WNOWAIT", "P_ALL", "P_PID", "O_NONBLOCK", "O_CLOEXEC", "O_NOFOLLOW"),
)
OF_SIGNAL = (
    "SIGALRM",
    "SIGCHLD",
    "SIGCONT",
    "SIGHUP",
    "SIGKILL",
    "SIGPIPE",
    "SIGQUIT",
    "SIGSTOP",
    "SIGUSR1",
    "SIGWINCH",
)


class Missing(importlib.abc.MetaPathFinder):
    """Finds nothing of what Windows lacks, and says so."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r} on Windows", name=name)


def _refuse(*_: object, **__: object) -> Any:
    raise NotImplementedError


def become_windows() -> None:
    """Take away what Windows does not have."""
    sysconfig.get_config_vars()  # it reads a file named after the system, once
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing())
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL)):
        for name in names:
            vars(module).pop(name, None)
    for method in ("add_signal_handler", "remove_signal_handler"):
        setattr(asyncio.SelectorEventLoop, method, _refuse)
    sys.platform = "win32"


def main() -> None:
    become_windows()
    match sys.argv[1:]:
        case ["-c", code]:
            exec(compile(code, "<windows>", "exec"), {"__name__": "__main__"})
        case _:
            from tontine.cli import main as command

            sys.argv[0] = "tontine"
            command()


if __name__ == "__main__":
    main()
