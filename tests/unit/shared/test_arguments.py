"""Arguments as commands take them: JSON, Extended JSON, files."""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from bson import Decimal128, Int64, ObjectId

from tontine.cli.arguments import read_arguments
from tontine.errors import ConfigError

ID = "65f0c0ffee65f0c0ffee65f0"
NUMBER = "12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        (
            '{"a": [1, 2.5, null, true], "b": {"c": 2147483648}}',
            {"a": [1, 2.5, None, True], "b": {"c": 2147483648}},
        ),
        ('{"price": "$5", "$set": {"a": 1}}', {"price": "$5", "$set": {"a": 1}}),
        ('{"when": {"$date": "2026-01-01T00:00:00Z"}}', {"when": datetime(2026, 1, 1, tzinfo=UTC)}),
        ('{"when": {"$date": {"$numberLong": "0"}}}', {"when": datetime(1970, 1, 1, tzinfo=UTC)}),
        (f'{{"ids": [{{"$oid": "{ID}"}}]}}', {"ids": [ObjectId(ID)]}),
        (f'{{"id": {{"\\u0024oid": "{ID}"}}}}', {"id": ObjectId(ID)}),
        (
            '{"sum": {"$numberDecimal": "9.99"}, "n": {"$numberLong": "7"}}',
            {"sum": Decimal128("9.99"), "n": Int64(7)},
        ),
        (f'{{"u": {{"$uuid": "{NUMBER}"}}}}', {"u": UUID(NUMBER)}),
    ],
)
def test_json_means_what_it_says_and_extended_json_what_mongodb_says(text: str, value: Any) -> None:
    read = read_arguments(text)
    assert read == value
    assert [type(one) for one in read.values()] == [type(one) for one in value.values()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1,}', "line 1 column"),
        ('{"a": NaN}', "NaN is not allowed"),
        ("[1]", "must be an object"),
        ('{"steps": {"get": 1, "put": 2, "get": 3}}', "'get' is there twice in one object"),
        (
            '{"a": {"b": [0, {"$date": "soon"}]}}',
            r"ARGS_JSON: `a\.b\[1\]` is no Extended JSON .*soon",
        ),
        ('{"a": {"$oid": "7"}}', "`a` is no Extended JSON"),
        ('{"a": {"$numberDecimal": "x"}}', "`a` is no Extended JSON"),
        ('{"a": {"$oid": 7}}', "`a` is no Extended JSON"),
        ("@nowhere.json", r"'nowhere\.json' cannot be read: No such file"),
        ("@.", "Is a directory"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        read_arguments(text)
    assert "\n" not in str(raised.value)


def test_arguments_can_come_from_a_file_or_from_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mail.json"
    file.write_text('{\n  "to": "ada"\n}\n')
    assert read_arguments(f"@{file}") == {"to": "ada"}
    file.write_text('{\n  "to": ada\n}\n')
    with pytest.raises(ConfigError, match=r"mail\.json is no JSON .*line 2 column 9"):
        read_arguments(f"@{file}")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"to": "bob"}')))
    assert read_arguments("-") == {"to": "bob"}
