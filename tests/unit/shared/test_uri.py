"""No secret of a URI is shown, whatever it looks like and however malformed the URI is."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from tontine.config import StoreConfig
from tontine.errors import ConfigError
from tontine.store.connect import open_store
from tontine.uri import database_of, hide, hide_all, shown, with_database

# Letters that no message of ours or the driver's has, among what makes a URI hard to read.
secrets = st.text(alphabet="ǅΩж7§ßẞ@:/?#%&=;[], +'\"\\\n", min_size=4, max_size=24)
encodings = st.sampled_from(
    [lambda secret: secret, quote, quote_plus, lambda secret: quote(secret, safe="")]
)
SHAPES = (
    "mongodb://user:{}@host:27017/?replicaSet=rs0",
    "mongodb://user:{}@h1,h2:27018,[::1]:27019/tontine",
    "mongodb+srv://user:{}@host.example.invalid:1/?w=majority",
    "mongodb://user:{}@host/?tlsCertificateKeyFilePassword={}&tls=false",
    "mongodb://host/?tlsCertificateKeyFilePassword={}",
    "mongodb://host/?sslPEMPassphrase={}",
    "mongodb://AKIA:{}@host/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:{}",
    "mongodb://host/?authMechanism=MONGODB-AWS&authMechanismProperties={}",
    "mongodb://host/?proxyHost=p&proxyPassword={}",
    "user:{}@host",
    "http://user:{}@host:80/",
)


def parts(secret: str, text: str) -> list[str]:
    return [
        secret[at : at + 4]
        for at in range(len(secret) - 3)
        if secret[at : at + 4].lower() in text.lower()
    ]


def errors_of(uri: str) -> str:
    """All that opening this URI says, to whoever sees the error, its causes and the driver's
    warnings."""
    said = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            open_store(StoreConfig(uri), connect=False).database.client.close()
        except ConfigError as error:
            said = f"{error} {error.__cause__}"
    return " ".join([said, *(str(warning.message) for warning in caught)])


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.sampled_from(SHAPES), secrets, encodings)
def test_no_part_of_a_secret_is_in_any_text(
    shape: str, secret: str, encoded: Callable[[str], str]
) -> None:
    assume(
        not shape.startswith("user:") or not encoded(secret).startswith("//")
    )  # a scheme, and no secret
    uri = shape.replace("{}", encoded(secret))
    innocent = shape.replace("{}", "0")
    said = f"{shown(uri)} {StoreConfig(uri)}"
    hidden = encoded(secret)
    if "+srv" not in uri or not set("/?") & set(
        hidden
    ):  # else the driver may find a name to ask the network for
        said += errors_of(uri)
    for form in (secret, hidden):
        assert [
            part for part in parts(form, said) if part not in innocent and part not in ":///"
        ] == []


@given(secrets, st.text(max_size=30), st.integers(0, 20))
def test_a_text_that_quotes_any_part_of_it_is_masked(secret: str, around: str, start: int) -> None:
    quoted = secret[start : start + 8]
    assume(len(quoted) >= 4)
    masked = hide(f"{around}{quoted}{around}", f"mongodb://user:{quote_plus(secret)}@host/")
    assert quoted not in masked


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("mongodb://host:27017/?replicaSet=rs0", "mongodb://host:27017/?replicaSet=rs0"),
        (
            "mongodb://ada@h1,h2/db?authMechanism=MONGODB-X509",
            "mongodb://ada@h1,h2/db?authMechanism=MONGODB-X509",
        ),
        ("mongodb://ada:pw@h1,h2/db?w=1", "mongodb://ada:***@h1,h2/db?w=1"),
        ("mongodb://ada:p@ss:w/rd@[::1]:1/?w=1", "mongodb://ada:***@[::1]:1/?w=1"),
        (
            "mongodb://%2Ftmp%2Fmongodb.sock/?appName=x",
            "mongodb://%2Ftmp%2Fmongodb.sock/?appName=x",
        ),
        (
            "mongodb://h/?tlsCertificateKeyFilePassword=a=b&tls=true",
            "mongodb://h/?tlsCertificateKeyFilePassword=***&tls=true",
        ),
        (
            "mongodb://h/?proxyPassword=a&b=c&tls=true",
            "mongodb://h/?proxyPassword=***&***&tls=true",
        ),
        ("mongodb://h/?replicaSte=rs0", "mongodb://h/?replicaSte=***"),
        ("mongodb://ada:p?w@h/", "mongodb://***"),
        ("mongodb://ada:secret/", "mongodb://***"),
        ("mongodb://ada:99999/", "mongodb://***"),
        ("ada:secret@host", "ada:***@host"),
        ("ada:a://b@host", "***"),
        ("localhost:27017", "localhost:27017"),
    ],
)
def test_what_is_harmless_is_shown(uri: str, text: str) -> None:
    assert shown(uri) == text


def test_a_text_is_left_as_it_is_but_for_the_secret() -> None:
    uri = "mongodb://ada:Tr0ub4dor%26@host/"
    assert (
        hide(f"{uri}: no Tr0ub4dor& or 'r0UB4d' here", uri)
        == "mongodb://ada:***@host/: no *** or '***' here"
    )
    assert (
        hide_all("no (mongodb+srv://a:b@c), no mongodb://h")
        == "no (mongodb+srv://*** no mongodb://h"
    )


@pytest.mark.parametrize(
    ("uri", "database"),
    [
        ("mongodb://h", None),
        ("mongodb://h/", None),
        ("mongodb://h/?a=b", None),
        ("mongodb://h/shop", "shop"),
        ("mongodb+srv://u:p%40%2Fx@cluster0.example.net/shop?retryWrites=true&w=majority", "shop"),
        ("mongodb://a:1,b:2,[::1]:3/sh%6fp?replicaSet=rs0", "shop"),
        ("mongodb://%2Ftmp%2Fmongodb-27017.sock/shop", "shop"),
        ("mongodb://h/shop.jobs", "shop"),
        ("mongodb://u:p@h/admin", None),
        ("mongodb://u:p@h/local?x=/y", None),
    ],
)
def test_the_database_that_a_uri_names(uri: str, database: str | None) -> None:
    assert database_of(uri) == database


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("mongodb://h", "mongodb://h/own"),
        ("mongodb://h/?replicaSet=rs0", "mongodb://h/own?replicaSet=rs0"),
        ("mongodb://h1,h2:27018/shop?w=majority", "mongodb://h1,h2:27018/own?w=majority"),
        (
            "mongodb://u:p%40@h/?replicaSet=rs0",
            "mongodb://u:p%40@h/own?replicaSet=rs0&authSource=admin",
        ),
        ("mongodb://u:p@h/shop", "mongodb://u:p@h/own?authSource=shop"),
        ("mongodb://u:p@h/shop?AuthSource=users", "mongodb://u:p@h/own?AuthSource=users"),
        (
            "mongodb://u:p@h/shop.jobs?appName=a@b",
            "mongodb://u:p@h/own?appName=a@b&authSource=shop",
        ),
        (
            "mongodb://u:p@h/?authMechanism=PLAIN",
            "mongodb://u:p@h/own?authMechanism=PLAIN&authSource=%24external",
        ),
        (
            "mongodb://u@h/shop?authMechanism=MONGODB-X509",
            "mongodb://u@h/own?authMechanism=MONGODB-X509",
        ),
        ("mongodb://%2Ftmp%2Fm.sock/shop", "mongodb://%2Ftmp%2Fm.sock/own"),
    ],
)
def test_another_database_is_named_without_another_user(given: str, wanted: str) -> None:
    moved = with_database(given, "own")
    assert moved == wanted
    assert database_of(moved) == "own"
    mongo = MongoClient[dict[str, Any]]
    with mongo(given, connect=False) as before, mongo(moved, connect=False) as after:
        assert after.options.pool_options._credentials == before.options.pool_options._credentials
        assert after.get_default_database().name == "own"


def test_what_the_txt_record_says_of_users_wins_over_the_path() -> None:
    assert (
        with_database("mongodb+srv://u:p@h/shop", "own", "admin")
        == "mongodb+srv://u:p@h/own?authSource=admin"
    )
