"""As much of Windows as can be had elsewhere. `python -m tests.support.windows COMMAND...` is
`tontine COMMAND...` there, `... -c CODE` runs Python.

What only POSIX has is taken away before anything of ours is imported: modules, names in `os`,
`signal` and `time`, handlers of signals in event loops. The standard library and what we depend on
are there already, as built for this system.
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import importlib.abc
import os
import signal
import sys
import sysconfig
import time
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

READY = (
    asyncio.base_events,
    click,
    cronsim,
    orjson,
    platformdirs,
    psutil,
    pymongo,
    rich.console,
    rich.table,
    tenacity,
)
MODULES = frozenset({"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"})
# By the types that Python's own stubs give each system.
OF_OS = (
    *(
        "chown",
        "chroot",
        "confstr",
        "copy_file_range",
        "ctermid",
        "environb",
        "eventfd",
        "fchdir",
        "fchmod",
    ),
    *(
        "fchown",
        "fdatasync",
        "fork",
        "forkpty",
        "fpathconf",
        "fstatvfs",
        "fwalk",
        "getegid",
        "getenvb",
    ),
    *(
        "geteuid",
        "getgid",
        "getgrouplist",
        "getgroups",
        "getloadavg",
        "getpgid",
        "getpgrp",
        "getpriority",
    ),
    *(
        "getrandom",
        "getresgid",
        "getresuid",
        "getsid",
        "getuid",
        "getxattr",
        "initgroups",
        "killpg",
        "lchown",
    ),
    *(
        "listxattr",
        "lockf",
        "major",
        "makedev",
        "memfd_create",
        "minor",
        "mkfifo",
        "mknod",
        "nice",
        "openpty",
    ),
    *(
        "pathconf",
        "pidfd_open",
        "pipe2",
        "posix_fadvise",
        "posix_fallocate",
        "posix_spawn",
        "posix_spawnp",
    ),
    *("pread", "preadv", "pwrite", "pwritev", "readv", "register_at_fork", "sched_getaffinity"),
    *(
        "sched_setaffinity",
        "sched_yield",
        "sendfile",
        "setegid",
        "seteuid",
        "setgid",
        "setgroups",
        "setpgid",
    ),
    *(
        "setpgrp",
        "setpriority",
        "setregid",
        "setreuid",
        "setsid",
        "setuid",
        "setxattr",
        "splice",
        "statvfs",
    ),
    *(
        "sync",
        "sysconf",
        "tcgetpgrp",
        "tcsetpgrp",
        "ttyname",
        "uname",
        "wait",
        "wait3",
        "wait4",
        "waitid",
    ),
    *(
        "writev",
        "P_ALL",
        "P_PGID",
        "P_PID",
        "P_PIDFD",
        "WEXITED",
        "WNOHANG",
        "WNOWAIT",
        "WSTOPPED",
        "WUNTRACED",
    ),
    *(
        "O_CLOEXEC",
        "O_DIRECTORY",
        "O_DSYNC",
        "O_NOCTTY",
        "O_NOFOLLOW",
        "O_NONBLOCK",
        "O_SYNC",
        "O_TMPFILE",
    ),
)
OF_TIME = [name for name in dir(time) if name.startswith(("CLOCK_", "clock_"))] + ["tzset"]
SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}
OF_SIGNAL = [
    name
    for name in dir(signal)
    if name.startswith("SIG") and name[3] != "_" and name not in SIGNALS
]


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
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL), (time, OF_TIME)):
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
