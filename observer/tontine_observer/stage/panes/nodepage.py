"""One node's page: who it is, what it does, what it can do. Pure."""

from __future__ import annotations

from ...draw.line import Line, left, wrap
from ...draw.plot import spark
from ...draw.words import age, amount, day_and_moment, rate
from ...records.node import NodeRow
from . import loadedpart
from .jobs import ran
from .scene import Scene
from .states import job_state, node_state


def lines(node: NodeRow, scene: Scene, width: int) -> list[Line]:
    state, role = node_state(node.seen, scene.glyphs)
    since = f"   since {day_and_moment(node.since, scene.zone)}" if node.since else ""
    note = f"   {node.note}" if node.note else ""
    head: list[Line] = [[(" ", "text"), (state, role), (since, "muted"), (note, "warn")]]
    if node.death:
        head.append([(f" died {day_and_moment(node.died_at, scene.zone)}: {node.death}", "warn")])
    plot = spark(node.rate, 30, scene.glyphs).strip()
    last = rate(node.rate[-1]) if node.rate else "-"
    facts = [
        ("share", _share(node, scene)),
        ("slots", f"{node.running} of {node.slots} busy, {node.held} jobs held{_size(node)}"),
        *_workers(node),
        ("settled", f"{amount(node.done)} done, {amount(node.failed)} failed"),
        (
            "heartbeat",
            f"{age(node.beat_age)} ago, lease {age(node.lease)}, claim loop at round {node.tick:,}",
        ),
        ("clock", "not known" if node.skew is None else f"{node.skew:+.2f} s from the server's"),
        ("machine", _machine(node)),
        ("process", f"pid {node.pid} on {node.host}, version {node.version}, id {node.id}"),
        ("started", day_and_moment(node.started_at, scene.zone)),
    ]
    body = [line for name, text in facts for line in _fact(name, text, width)]
    body.append([("  " + left("rate 60 s", 12), "muted"), (plot, "spark"), (f" {last}/s", "text")])
    return [
        *head,
        *_troubles(node, scene, width),
        [("", "text")],
        *body,
        *_jobs(node, scene),
        *loadedpart.contexts(node, scene, width),
        *loadedpart.modules(node, scene, width),
    ]


def _troubles(node: NodeRow, scene: Scene, width: int) -> list[Line]:
    found: list[Line] = [[("", "text")], [(" Fails", "title")]] if node.troubles else []
    for trouble in node.troubles:
        long = age(trouble.lasted(scene.picture.at))
        tries = f", {amount(trouble.times)} times" if trouble.times > 1 else ""
        found.append(
            [
                (f"  {left(trouble.what, 12)}", "warn"),
                (f"for {long}{tries}: cannot {trouble.deed}", "text"),
            ]
        )
        found += [[(" " * 14 + text, "muted")] for text in wrap(trouble.why, width - 16)]
    return found


def _workers(node: NodeRow) -> list[tuple[str, str]]:
    if node.workers is None or node.workers_wanted is None:
        return []
    return [("workers", f"{node.workers} of {node.workers_wanted} there")]


def _size(node: NodeRow) -> str:
    return "" if node.bytes is None else f", {node.bytes / 2**20:,.1f} MiB in hand"


def _fact(name: str, text: str, width: int) -> list[Line]:
    return [
        [(f"  {left('' if number else name, 12)}", "muted"), (part, "text")]
        for number, part in enumerate(wrap(text, max(10, width - 15)))
    ]


def _share(node: NodeRow, scene: Scene) -> str:
    if node.rank is None:
        return "none: it is no member of the roster"
    if node.share is None:
        return f"rank {node.rank}"
    if not scene.picture.roster.is_uniform:
        return (
            f"rank {node.rank} of {node.share.size}: of each task that it offers, its part among "
            f"those who do (epoch {node.share.epoch})"
        )
    return (
        f"rank {node.rank}: every seq that divided by {node.share.size} leaves {node.rank} "
        f"(epoch {node.share.epoch})"
    )


def _machine(node: NodeRow) -> str:
    cpu = "-" if node.cpu is None else f"{node.cpu:.0%}"
    memory = "-" if node.memory is None else f"{node.memory / 2**20:,.0f} MiB"
    return f"CPU {cpu} of a core, memory {memory}"


def _jobs(node: NodeRow, scene: Scene) -> list[Line]:
    held = [row for row in scene.jobs.rows if row.node == node.id and row.state == "working"]
    if not held:
        return []
    found: list[Line] = [[("", "text")], [(" Holds", "title")]]
    for row in held[:20]:
        text, role = job_state(row.state, scene.glyphs)
        found.append(
            [
                (f"  {left(f'#{row.seq}', 9)} ", "strong"),
                (text, role),
                (f"  {left(row.task, 24)}", "text"),
                (f" {age(ran(row, scene.seconds))}", "muted"),
            ]
        )
    if len(held) > 20:
        found.append([(f"  and {len(held) - 20:,} more", "muted")])
    return found
