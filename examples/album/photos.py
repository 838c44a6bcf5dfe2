"""A small photo server to try the album with: `python photos.py` serves album 7 on port 8000.

/7/album.json     its title and the addresses of its photos
/7/3.jpg          a photo; the last one is gone
"""

from __future__ import annotations

import io
import json
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from PIL import Image, ImageDraw


class Photos(ThreadingHTTPServer):
    """Albums of `count` photos, of which the last is missing; each photo takes `pause` seconds."""

    daemon_threads = True

    def __init__(self, port: int = 8000, *, count: int = 12, pause: float = 0.0) -> None:
        super().__init__(("127.0.0.1", port), _Answer)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.count = count
        self.pause = pause
        self.asked: Counter[str] = Counter()
        """How often each address was asked for."""


class _Answer(BaseHTTPRequestHandler):
    server: Photos

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        album, _, name = self.path.strip("/").partition("/")
        number = name.removesuffix(".jpg")
        if name == "album.json":
            urls = [f"{self.server.url}/{album}/{n}.jpg" for n in range(self.server.count)]
            self._send("application/json", json.dumps({"title": f"Album {album}", "urls": urls}))
        elif number.isdecimal() and int(number) < self.server.count - 1:
            time.sleep(self.server.pause)
            self._send("image/jpeg", picture(number))
        else:
            self.send_error(404, "there is no such photo")

    def _send(self, kind: str, body: str | bytes) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


def picture(text: str) -> bytes:
    image = Image.new("RGB", (1200, 800), "teal")
    ImageDraw.Draw(image).text((40, 40), text, font_size=400)
    held = io.BytesIO()
    image.save(held, "JPEG")
    return held.getvalue()


if __name__ == "__main__":
    with Photos(pause=0.5) as photos:
        print(f"album 7 is at {photos.url}/7/album.json")
        photos.serve_forever()
