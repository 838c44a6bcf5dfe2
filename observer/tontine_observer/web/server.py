"""The web server: the page, its files, and one socket per tab. It asks who is there before anything
is opened."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable

from aiohttp import WSMsgType, web

from . import assets
from .config import WebConfig
from .gate import Gate
from .tab import Tab

TABS_AT_MOST = 8
MESSAGE_AT_MOST = 256 * 1024
CELLS_AT_MOST = 1000

NO_SESSION = (
    "This page opens with the link that `tontine observe --web` printed. Each link works once."
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Site:
    """Serves observers of one store to the browsers that were admitted."""

    def __init__(
        self, config: WebConfig, uri: str, gate: Gate, admitted: Callable[[], None]
    ) -> None:
        self.tabs: set[Tab] = set()
        self._config = config
        self._uri = uri
        self._gate = gate
        self._admitted = admitted
        self._is_over = False

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._check_host])
        application.on_response_prepare.append(_add_headers)
        application.add_routes(
            [
                web.get("/", self._page),
                web.get("/static/{name}", _file),
                web.get("/tab", self._tab),
                web.get("/download/{key}", self._download),
            ]
        )
        return application

    async def end(self) -> None:
        """End every tab's process, and start none any more."""
        self._is_over = True
        await asyncio.gather(*(tab.end() for tab in self.tabs))

    @web.middleware
    async def _check_host(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        # A page of somebody else's could let its own name lead here, and so read what only this
        # machine may.
        if not self._gate.trusts_host(request.headers.get("Host", "")):
            raise web.HTTPForbidden(text="This server does not go by that name.")
        return await handler(request)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        session = self._gate.admit(request.query.get("token", ""))
        if session is None and not self._has_session(request):
            raise web.HTTPForbidden(text=NO_SESSION)
        text = assets.page(self._config.store.database)
        page = web.Response(text=text, content_type="text/html", charset="utf-8")
        if session is not None:
            page.set_cookie(self._gate.cookie, session, httponly=True, samesite="Strict", path="/")
            self._admitted()
        return page

    def _has_session(self, request: web.Request) -> bool:
        return self._gate.knows(request.cookies.get(self._gate.cookie, ""))

    async def _tab(self, request: web.Request) -> web.StreamResponse:
        """A socket, refused in words while it is not one yet."""
        is_socket = request.headers.get("Upgrade", "").lower() == "websocket"
        origin = request.headers.get("Origin", "")
        if is_socket and not self._gate.trusts_origin(origin, request.headers.get("Host", "")):
            raise web.HTTPForbidden(text="Another site's page may not look in here.")
        if not self._has_session(request):
            raise web.HTTPForbidden(text=NO_SESSION)
        if self._is_over:
            raise web.HTTPServiceUnavailable(text="The server is ending.")
        if len(self.tabs) >= TABS_AT_MOST:
            raise web.HTTPServiceUnavailable(
                text=(
                    f"{TABS_AT_MOST} tabs are open already, each a process and a stream: close "
                    "one first."
                )
            )
        if not is_socket:
            raise web.HTTPUpgradeRequired(text="Here is only a socket.")
        tab = Tab(
            self._config,
            self._uri,
            _cells(request.query.get("width")),
            _cells(request.query.get("height")),
        )
        self.tabs.add(tab)  # before anything waits: two at once must not both be the last one
        try:
            return await self._connect(request, tab)
        finally:
            await tab.end()
            self.tabs.discard(tab)

    async def _connect(self, request: web.Request, tab: Tab) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=15, max_msg_size=MESSAGE_AT_MOST, compress=False)
        await socket.prepare(request)

        async def show() -> None:
            try:
                with contextlib.suppress(ConnectionError):  # the browser has gone
                    await tab.run(socket.send_bytes, socket.send_json)
            finally:
                await socket.close()

        showing = asyncio.create_task(show())
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await _take(tab, message.data)
        finally:
            await tab.end()
            await showing
        return socket

    async def _download(self, request: web.Request) -> web.StreamResponse:
        if not self._has_session(request):
            raise web.HTTPForbidden(text=NO_SESSION)
        found = (tab.download(request.match_info["key"]) for tab in self.tabs)
        download = next((one for one in found if one is not None), None)
        if download is None:
            raise web.HTTPNotFound(text="There is no such file any more.")
        headers = {
            "Content-Disposition": download.disposition,
            "Content-Type": "application/octet-stream",
        }
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        async for chunk in download.chunks():
            await response.write(chunk)
        await response.write_eof()
        return response


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(assets.HEADERS)


async def _file(request: web.Request) -> web.StreamResponse:
    found = assets.find(request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound
    return web.Response(body=found[0], content_type=found[1])


def _cells(text: str | None) -> int:
    known = text is not None and text.isdecimal() and len(text) < 5 and int(text) > 0
    return min(int(text or 0), CELLS_AT_MOST) if known else 80


async def _take(tab: Tab, text: str) -> None:
    """One message of the page; what is none is passed over."""
    try:
        match json.loads(text):
            case ["stdin", str(typed)]:
                await tab.type(typed)
            case ["resize", int(width), int(height)] if (
                0 < width <= CELLS_AT_MOST and 0 < height <= CELLS_AT_MOST
            ):
                await tab.resize(width, height)
            case ["focus" | "blur" as kind]:
                await tab.send_meta(type=kind)
    except ValueError:
        return
