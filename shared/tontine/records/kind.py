"""Kinds: which members of a roster offer the same. Each node writes only its own place there, and
copies what others have written. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .job import is_text
from .offer import Offer

_KNOWN = {"modules", "of"}


@dataclass(frozen=True, slots=True)
class Kind:
    """Nodes that offer the same."""

    offer: Offer
    of: tuple[str, ...]
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """As it was written, perhaps by newer software that says more."""

    @classmethod
    def made(cls, offer: Offer, of: Iterable[str]) -> Kind:
        return cls(offer, tuple(of), {"modules": offer.to_documents()})

    def to_document(self) -> dict[str, Any]:
        return {**self.document, "of": list(self.of)}

    def cut_to(self, nodes: Collection[str]) -> Kind:
        """The same without those who are not among these."""
        left = tuple(node for node in self.of if node in nodes)
        return self if left == self.of else Kind(self.offer, left, self.document)

    def says_only(self, offer: Offer) -> bool:
        """Whether a node of this offer can be in it: nothing more is said of its members."""
        is_plain = _KNOWN.issuperset(self.document)
        return is_plain and self.document.get("modules") == offer.to_documents()


def read_kinds(documents: Any, members: Collection[str]) -> tuple[Kind, ...]:
    """What a roster says of its members; others are ignored, and so is a second place of one."""
    placed: set[str] = set()
    kinds = []
    for document in documents if isinstance(documents, list) else ():
        if not isinstance(document, Mapping):
            continue
        said = document.get("of")
        ids = [one for one in said if is_text(one)] if isinstance(said, list) else []
        of = tuple(one for one in dict.fromkeys(ids) if one in members and one not in placed)
        placed.update(of)
        if of:
            kinds.append(Kind(Offer.from_documents(document.get("modules")), of, document))
    return tuple(kinds)


def with_place(kinds: Iterable[Kind], node: str, offer: Offer | None) -> tuple[Kind, ...]:
    """Kinds in which a node has its place where its offer is, or none at all."""
    others = [kind.cut_to(set(kind.of) - {node}) for kind in kinds]
    if offer is None:
        return tuple(kind for kind in others if kind.of)
    for place, kind in enumerate(others):
        if kind.says_only(offer):
            others[place] = Kind(kind.offer, (*kind.of, node), kind.document)
            break
    else:
        others.append(Kind.made(offer, [node]))
    return tuple(kind for kind in others if kind.of)
