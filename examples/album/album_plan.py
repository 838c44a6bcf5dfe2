"""The album as a plan: `python album_plan.py 7 ada@example.org` submits it and waits for it."""

from __future__ import annotations

import sys

from album_tasks import close_album, fetch, mail, open_album, pack, resize, unpack

from tontine import Client, Plan


def album_plan(number: int, to: str) -> Plan:
    """Fetch what can be fetched, at most four at a time; make each smaller as soon as it is there;
    pack, mail, tidy up."""
    plan = Plan("album", key=f"album-{number}")
    opened = plan.step(open_album, {"number": number})
    photos = plan.map(
        fetch, opened["urls"], {"number": number}, as_="url", at_once=4, may_fail=True
    )
    small = plan.map(resize, photos, {"number": number, "width": 800}, as_="photo")
    packed = plan.step(pack, {"photos": small, "title": opened["title"]})
    packed.undo(unpack, {"archive": packed["path"]})
    plan.step(mail, {"to": to, "title": opened["title"], "archive": packed["path"]})
    plan.finally_(close_album, {"number": number})
    plan.returns(packed)
    return plan


if __name__ == "__main__":
    with Client() as client:
        ran = client.submit_plan(album_plan(int(sys.argv[1]), sys.argv[2]))
        print(f"plan {ran.seq}: tontine plan {ran.seq} --follow")
        ended = client.wait(ran)
        print(ended.result if ended.state == "done" else f"{ended.state}: {ended.error}")
