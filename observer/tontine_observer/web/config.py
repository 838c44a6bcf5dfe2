"""Where the page is served, and what may be done with it. By default: on this machine only, and
nothing."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

import psutil

from tontine.config import StoreConfig
from tontine.errors import ConfigError

LOOPBACK = "127.0.0.1"
TAB_DRIVER = "tontine_observer.web.driver:TabDriver"
"""What TEXTUAL_DRIVER says in the process of a tab, whose screen is a pipe."""
_LOCAL_NAMES = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class WebConfig:
    """Settings of one server; `options` are given to each tab's observer."""

    store: StoreConfig
    host: str = LOOPBACK
    port: int = 0
    is_exposed: bool = False
    is_writable: bool = False
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(
                f"{self.port} is no port: choose one up to 65535, or 0 for a free one"
            )
        if not self.is_exposed and not is_loopback(self.host):
            raise ConfigError(
                f"{self.host} is not a loopback address: whoever can reach it could read along. "
                "Forward a port to "
                "this machine instead (ssh -L), or add --expose if the network is trusted"
            )

    @property
    def names(self) -> frozenset[str]:
        """What a browser may call this server: a name of somebody else's that leads here is an
        attack."""
        if is_loopback(self.host):
            return _LOCAL_NAMES | {self.host.lower()}
        mine = {self.host.lower(), socket.gethostname().lower()}
        if self._is_everywhere:
            mine |= {
                one.address.partition("%")[0]
                for some in psutil.net_if_addrs().values()
                for one in some
            }
        return _LOCAL_NAMES | mine

    @property
    def shown_host(self) -> str:
        """The host as a link has it."""
        if self._is_everywhere:
            return socket.gethostname()
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def _is_everywhere(self) -> bool:
        return _address(self.host) in (ipaddress.IPv4Address(0), ipaddress.IPv6Address(0))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it. Of names only `localhost` is: others may lead elsewhere
    tomorrow."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
