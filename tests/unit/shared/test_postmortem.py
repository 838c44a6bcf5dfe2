"""What a mongod that did not start wrote becomes the one line that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tontine.postmortem import explain

MONGOD = Path("/opt/mongod")


def explained(tmp_path: Path, code: int, output: str = "", log: str = "") -> str:
    (tmp_path / "mongod.out").write_text(output)
    (tmp_path / "mongod.log").write_text(log)
    return explain(
        code,
        mongod=MONGOD,
        root=tmp_path,
        output=tmp_path / "mongod.out",
        log=tmp_path / "mongod.log",
    )


@pytest.mark.parametrize(
    ("output", "library", "package"),
    [
        (
            "mongod: error while loading shared libraries: libcurl.so.4: cannot open",
            "libcurl.so.4",
            "libcurl4",
        ),
        (
            "mongod: error while loading shared libraries: libcrypto.so.3: cannot open",
            "libcrypto.so.3",
            "libssl3",
        ),
        (
            "Error loading shared library liblzma.so.5: No such file (needed by mongod)",
            "liblzma.so.5",
            None,
        ),
        (
            "dyld[7]: Library not loaded: /usr/local/opt/libssl.3.dylib\n  Referenced from",
            "libssl.3.dylib",
            None,
        ),
    ],
)
def test_the_missing_library_and_its_package(
    tmp_path: Path, output: str, library: str, package: str | None
) -> None:
    text = explained(tmp_path, 127, output)
    assert f"{MONGOD} needs the shared library {library}, which" in text
    assert (f"apt-get install {package})" in text) is (package is not None)


@pytest.mark.parametrize(
    ("code", "output", "expected"),
    [
        (
            1,
            "mongod: libc.so.6: version `GLIBC_2.34' not found",
            "cannot run on this system (mongod: libc.so.6",
        ),
        (
            126,
            "sh: 1: mongod: Exec format error",
            "cannot run on this system (sh: 1: mongod: Exec format error)",
        ),
        (127, "sh: mongod: not found", "cannot run on this system (sh: mongod: not found)"),
        (132, "Illegal instruction", "needs a processor with AVX"),
        (137, "", "ended while starting (signal 9): it gave no reason"),
        (62, "", "written by a version of MongoDB that"),
        (
            14,
            "Failed to start up WiredTiger under any compatibility version.",
            "written by a version of MongoDB",
        ),
        (
            100,
            "Attempted to create a lock file on a read-only directory: /data",
            "cannot be written",
        ),
        (100, "DBPathInUse: Unable to lock the lock file", "another mongod"),
        (14, "write: Disk quota exceeded", "is full: free some space"),
    ],
)
def test_each_ending_gets_its_advice(tmp_path: Path, code: int, output: str, expected: str) -> None:
    text = explained(tmp_path, code, output)
    assert expected in text
    assert "\n" not in text


def test_the_first_error_of_the_log_is_the_reason(tmp_path: Path) -> None:
    log = "\n".join(
        [
            '{"s":"I","c":"CONTROL","msg":"MongoDB starting"}',
            (
                '{"s":"E","c":"CONTROL","msg":"Error setting '
                'up","attr":{"error":{"code":1,"errmsg":"bad luck"}}}'
            ),
            '{"s":"F","c":"ASSERT","msg":"\\n\\n***aborting after fassert() failure\\n\\n"}',
        ]
    )
    expected = (
        "mongod ended while starting (exit code 100): Error setting up: bad luck; look "
        f"into {tmp_path}/mongod.log"
    )
    assert explained(tmp_path, 100, "noise", log) == expected
