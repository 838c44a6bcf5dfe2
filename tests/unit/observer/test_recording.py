"""Recordings: what is written is clean and redacted, and what is read again is the same board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.changes import START, World, moment
from tontine.errors import ConfigError
from tontine_observer.faces.once import counted, show_once
from tontine_observer.feed.recording import Recorder
from tontine_observer.feed.replay import ReplaySource, replay
from tontine_observer.model import intake
from tontine_observer.picture.board import Board
from tontine_observer.records.clean import Cleaner
from tontine_observer.records.link import Mode
from tontine_observer.records.request import Phase, Request

EVIL = "\x1b]0;owned\x07\u202e[bold]\r\n password=hunter2 " + "x" * 1_000_000


def recorded(
    path: Path, world: World, first: World | None = None, clean: Cleaner | None = None
) -> Board:
    board = Board("prod", clean, clock=lambda: world.now)
    recorder = Recorder(path, "prod", board.known.clean)
    board.known.taps.append(recorder)
    intake.load(board.known, (first or World()).snapshot())
    intake.take(board.known, world.deltas)
    recorder.close()
    return board


def busy() -> World:
    world = World()
    world.put_node("ada")
    world.put_node("bea")
    world.set_roster("ada", "bea")
    for seq in range(1, 9):
        world.insert_job(seq, seq, args={"password": "hunter2"})
    world.claim(1, "ada")
    world.settle(1)
    world.claim(2, "bea")
    world.change_job(2, progress={"value": 0.5, "note": "half"})
    world.beat("ada", 1)
    world.change_node("bea", state="dead", died_at=moment(world.now), death="lease expired")
    world.set_roster("ada")
    return world


def test_a_recording_shows_what_was_seen_at_every_moment(tmp_path: Path) -> None:
    world = busy()
    board = recorded(tmp_path / "r.jsonl", world)
    again = Board("", clock=lambda: 0.0)
    replay(tmp_path / "r.jsonl", again.known)
    assert again.link.mode is Mode.REPLAY
    assert again.picture().status.database == "prod"
    for second in range(len(world.deltas) + 1):
        at = moment(START + second)
        assert again.picture(at).nodes == board.picture(at).nodes
        assert again.picture(at).shares == board.picture(at).shares
        assert again.jobs(at).rows == board.jobs(at).rows
        assert again.picture(at).flow.counts == board.picture(at).flow.counts
    assert again.changes() == board.changes()


def test_a_recording_in_which_nobody_counted_says_of_no_job_that_it_never_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "r.jsonl", busy())
    again = Board("", clock=lambda: 0.0)
    replay(tmp_path / "r.jsonl", again.known)
    again.known.tally.is_counted = False
    show_once(again, as_json=False)
    assert "jobs  6 queued, 1 working\n" in capsys.readouterr().out
    assert counted(again.picture()).keys() >= {"done", "failed"}, "keys for programs stay"


def test_nothing_foreign_and_nothing_secret_is_in_the_file(tmp_path: Path) -> None:
    world = World()
    world.put_node("ada", host=EVIL, name=EVIL)
    world.insert_job(EVIL, 1, task=EVIL, args={"card": "4111-1111"}, result="4111-1111", key=EVIL)
    world.change_job(EVIL, state="failed", error={"type": "E", "message": "the code 4711 " + EVIL})
    recorded(tmp_path / "r.jsonl", world, clean=Cleaner.of([r"\b47\d\d\b"]))
    text = (tmp_path / "r.jsonl").read_text()
    assert all(secret not in text for secret in ("hunter2", "4111-1111", "4711"))
    assert all(character not in text for character in "\x1b\x07\u202e\r")
    again = Board("", clock=lambda: 0.0)
    replay(tmp_path / "r.jsonl", again.known)
    assert [row.state for row in again.jobs().rows] == ["failed"]
    assert (tmp_path / "r.jsonl").stat().st_mode & 0o077 == 0


def test_a_recording_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorded(path, busy())
    path.write_bytes(path.read_bytes()[:-20])
    board = Board("", clock=lambda: 0.0)
    replay(path, board.known)
    assert board.picture().status.database == "prod"


@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b"\xff\xfe\n{}\n", b'{"kind": "tontine-recording"}\n', b"[1]\n"]
)
def test_what_is_no_recording_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    if content == b"":
        replay(path, Board("").known)
        return
    with pytest.raises(ConfigError) as refusal:
        replay(path, Board("").known)
    assert "\n" not in str(refusal.value)


def test_entries_of_another_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"kind":"tontine-recording","schema":1,"database":"x"}\n{"kind":"look"}\n')
    with pytest.raises(ConfigError, match="another version"):
        replay(path, Board("").known)


def test_a_file_that_cannot_be_opened_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        Recorder(tmp_path / "no" / "r.jsonl", "x", Cleaner())
    with pytest.raises(ConfigError, match="cannot be read"):
        replay(tmp_path / "r.jsonl", Board("").known)


async def test_nothing_can_be_asked_of_a_recording(tmp_path: Path) -> None:
    recorded(tmp_path / "r.jsonl", busy())
    source = ReplaySource(tmp_path / "r.jsonl", Board(""))
    told: list[Any] = [progress async for progress in source.ask(Request("pause", ("ada",)))]
    assert [progress.phase for progress in told] == [Phase.REFUSED]
    page = await source.page(2)
    assert page is not None
    assert (page.row.progress, page.holder) == (0.5, "bea")
    assert await source.page(99) is None


def test_a_full_disk_ends_the_recording_and_not_the_observer() -> None:
    said: list[str] = []
    recorder = Recorder(Path("/dev/full"), "prod", Cleaner(), said.append)
    world = busy()
    board = Board("prod", clock=lambda: world.now)
    board.known.taps.append(recorder)
    intake.load(board.known, World().snapshot())
    intake.take(board.known, world.deltas)
    assert said == ["the recording ended: No space left on device"]
    assert len(board.jobs().rows) == 8


def test_a_picture_stays_as_it_was() -> None:
    world = World()
    board = Board("prod", clock=lambda: world.now)
    intake.load(board.known, World().snapshot())
    world.insert_job(1, 1)
    intake.take(board.known, world.deltas)
    picture = board.picture()
    world.insert_job(2, 2)
    intake.take(board.known, world.deltas)
    assert picture.flow.counts["queued"] == 1
    assert board.picture().flow.counts["queued"] == 2
