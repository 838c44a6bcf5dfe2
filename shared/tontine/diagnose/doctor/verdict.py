"""What a check concludes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...rules.complaint import Complaint, Weight


class Verdict(StrEnum):
    """How bad it is; `unknown` is a check that could not be made, mostly for want of a right."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict in one sentence, and what to do."""

    verdict: Verdict
    sentence: str
    advice: str = ""


def ok(sentence: str) -> Judgement:
    return Judgement(Verdict.OK, sentence)


def warn(sentence: str, advice: str = "") -> Judgement:
    return Judgement(Verdict.WARN, sentence, advice)


def fail(sentence: str, advice: str = "") -> Judgement:
    return Judgement(Verdict.FAIL, sentence, advice)


def unknown(sentence: str, advice: str = "") -> Judgement:
    return Judgement(Verdict.UNKNOWN, sentence, advice)


def judgement(complaint: Complaint) -> Judgement:
    """What is wrong, in the words that everybody uses for it."""
    verdict = Verdict.FAIL if complaint.weight is Weight.BAD else Verdict.WARN
    return Judgement(verdict, complaint.text, complaint.advice)
