"""The mongod program: where it is, and how it is started so that it outlives its starter."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from .. import config
from ..errors import EmbeddedError, MissingExtra

OPTIONS = (
    *("--bind_ip", "127.0.0.1", "--nounixsocket", "--replSet", "tontine", "--oplogSize", "512"),
    *("--wiredTigerCacheSizeGB", "0.5", "--quiet", "--logappend", "--logRotate", "reopen"),
    # An empty database takes 33 MB of disk; with the preallocated journal it would take 300.
    *("--wiredTigerEngineConfigString", "log=(prealloc=false,file_max=32MB)"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"),
    # Nobody but who knows the key may make the first user.
    *("--setParameter", "enableLocalhostAuthBypass=false"),
    # The least that there is: a random password of 256 bits needs no stretching, and every
    # connection pays for it.
    *("--setParameter", "scramSHA256IterationCount=5000"),
)

# The shell reports mongod's exit code while it starts. Ending the shell then leaves mongod to init:
# no zombie in the process that started it, and no warning about a child still running.
LAUNCHER = '"$@" & wait $!'


def find_mongod() -> Path:
    """The mongod to run: TONTINE_MONGOD, else the one on PATH, else that of the `embedded`
    extra."""
    if override := config.mongod_override():
        chosen = Path(override).expanduser().absolute()
        if not (chosen.is_file() and os.access(chosen, os.X_OK)):
            raise EmbeddedError(
                f"TONTINE_MONGOD is {override}, no executable file: correct it, or unset it"
            )
        return chosen
    if on_path := shutil.which("mongod"):
        return Path(on_path).absolute()
    # Its package belongs to the namespace of a large application, which an import of it could load.
    spec = find_spec("fiftyone")
    for package in (spec and spec.submodule_search_locations) or ():
        for name in ("mongod", "mongod.exe"):
            if (bundled := Path(package, "db", "bin", name)).is_file():
                return bundled
    raise MissingExtra(
        "no MongoDB was given (--uri or TONTINE_URI), and the embedded one", "embedded"
    )


def executable(mongod: Path, copies: Path) -> Path:
    """That mongod, or a copy if it may not be executed: nothing in site-packages is changed."""
    if os.access(mongod, os.X_OK):
        return mongod
    copy = copies / mongod.name
    if not copy.exists() or copy.stat().st_size != mongod.stat().st_size:
        copies.mkdir(exist_ok=True)
        shutil.copyfile(mongod, copy)
        copy.chmod(0o700)
    return copy


def launch(
    mongod: Path, port: int, *, data: Path, log: Path, key: Path, output: Path
) -> subprocess.Popen[bytes]:
    """Starts mongod in a session of its own; its launcher ends when mongod does, and can be ended
    before."""
    command = [
        str(mongod),
        "--dbpath",
        str(data),
        "--port",
        str(port),
        "--logpath",
        str(log),
        *OPTIONS,
    ]
    command += ["--auth", "--keyFile", str(key)]
    output.touch(mode=0o600)
    with output.open("wb") as written:
        return subprocess.Popen(
            ["/bin/sh", "-c", LAUNCHER, "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            cwd=data.parent,
            start_new_session=True,
        )
