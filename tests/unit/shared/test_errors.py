"""What users import, and what a failed job says of itself."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

import tontine
from tontine import Job, JobCancelled, JobError, JobFailed, JobState, errors


def failed(seq: int = 17, attempt: int = 1) -> Job:
    error = JobError(
        "ValueError",
        "no image",
        "Traceback (most recent call last):\n  ...\nValueError: no image\n",
    )
    return Job(f"id{seq}", seq, "shop.resize", state=JobState.FAILED, error=error, attempt=attempt)


def test_every_exception_comes_from_tontine() -> None:
    raised = {
        name
        for name, one in vars(errors).items()
        if isinstance(one, type) and issubclass(one, Exception)
    }
    assert raised <= {*tontine.__all__}
    for name in tontine.__all__:
        assert getattr(tontine, name) is not None
        assert name in dir(tontine)


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Clinet'"):
        tontine.Clinet  # noqa: B018


def test_importing_tontine_loads_no_driver() -> None:
    code = "import sys, tontine; tontine.JobFailed; print('pymongo' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60) == "False\n"


def test_a_failed_job_says_what_failed_and_where() -> None:
    error = JobFailed([failed(attempt=3)])
    first, _, rest = str(error).partition("\n")
    assert first == "job 17 (shop.resize) failed after 3 attempts: ValueError: no image"
    assert rest.strip().startswith("Traceback")
    assert error.job.seq == 17


def test_of_many_the_first_is_told_and_the_others_counted() -> None:
    error = JobFailed([failed(1), failed(2), failed(3)])
    assert str(error).startswith(
        "job 1 (shop.resize) failed: ValueError: no image (and 2 more of those waited for)\n"
    )
    assert [job.seq for job in error.failed] == [1, 2, 3]


def test_a_cancelled_job_is_told_as_such_and_is_caught_as_a_failed_one() -> None:
    error = JobCancelled([Job("id", 4, "shop.resize", state=JobState.CANCELLED)])
    assert str(error) == "job 4 (shop.resize) was cancelled"
    assert isinstance(error, JobFailed)


def test_it_goes_from_process_to_process() -> None:
    error = pickle.loads(pickle.dumps(JobFailed([failed()])))
    assert (error.job.seq, str(error)) == (17, str(JobFailed([failed()])))


def test_a_job_is_short_to_read() -> None:
    assert (
        repr(Job("id", 17, "shop.resize", {"image": "a" * 1000}, JobState.DONE))
        == "Job(17, 'shop.resize', done)"
    )
    assert (
        repr(Job.from_document({"_id": "mine", "task": "t.t"})) == "Job(_id='mine', 't.t', queued)"
    )


def test_a_number_is_an_int_and_one_that_is_not_there_yet_is_told_apart() -> None:
    numbered, raw = Job.from_document({"_id": 1, "seq": 5.0}), Job.from_document({"_id": 1})
    assert (numbered.seq, numbered.is_numbered) == (5, True)
    assert isinstance(numbered.seq, int)
    assert (raw.seq, raw.is_numbered) == (-1, False)


def test_meta_of_any_other_shape_is_not_ours() -> None:
    assert Job.from_document({"_id": 1, "meta": "mine"}).meta == {}
    assert Job.from_document({"_id": 1, "meta": {"tenant": 1}}).meta == {"tenant": 1}
