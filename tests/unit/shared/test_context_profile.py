"""Finding the Context that a profile names, and saying what is there instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tontine import ConfigError, Context
from tontine.context_profile import load_profile

mail = Context("mail")
letters = 5
ME = __name__


def test_a_profile_is_a_module_or_a_file_and_a_name(tmp_path: Path) -> None:
    assert load_profile(f"{ME}:mail") is mail
    file = tmp_path / "profile_in_a_file.py"
    file.write_text("from tontine import Context\nmail = Context('from a file')")
    assert load_profile(f"{file}:mail").name == "from a file"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{ME}:letters", f"the profile '{ME}:letters' is no tontine.Context: it is of type int"),
        (f"{ME}:Context", f"the profile '{ME}:Context' is no tontine.Context: it is the class Con"),
        (f"{ME}:mial", f"the profile '{ME}:mial': there is no mial in {ME}; was mail meant?"),
        ("nowhere.context:mail", "there is no Python module nowhere"),
        ("nowhere.py:mail", "there is no file nowhere.py"),
    ],
)
def test_what_is_no_context_is_told_with_what_it_is(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_profile(name)
    assert message in str(caught.value)
