"""A real `tontine observe --web` for a story: its links, its tabs, its children."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import psutil

from tests.support.cluster import ROOT
from tests.support.eventually import eventually


class WebServer:
    """One server in a process of its own."""

    def __init__(self, uri: str, database: str, directory: Path, *options: str) -> None:
        command = [sys.executable, "-m", "tontine", "observe", "--web", *options]
        self._out = directory / "web.out"
        with self._out.open("wb") as out, (directory / "web.err").open("wb") as err:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env=os.environ
                | {"TONTINE_URI": uri, "TONTINE_DATABASE": database, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        try:
            eventually(self.links, 60, "a link")
        except AssertionError as error:
            self.close()
            raise AssertionError((directory / "web.err").read_text()) from error

    def links(self) -> list[str]:
        """The links it has printed so far, newest last."""
        return re.findall(r"http://\S+", self._out.read_text())

    @property
    def host(self) -> str:
        """Host and port."""
        return urlsplit(self.links()[0]).netloc

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def visitor(**headers: str) -> aiohttp.ClientSession:
    """A browser without a screen: it keeps cookies, also those of an address."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), headers=headers)
