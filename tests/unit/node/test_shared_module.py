"""A module that two contexts were started with is refused with both places."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tontine.errors import ConfigError
from tontine_node.config import ContextConfig
from tontine_node.running.shared_module import refuse_shared


def dispatcher(context: str, *sources: str, **modules: str) -> Any:
    """Of a context with these sources, whose workers have these modules from theirs."""
    said = [{"name": name, "source": source} for name, source in modules.items()]
    return SimpleNamespace(context=ContextConfig(context, sources), modules=said)


def test_two_contexts_with_one_module_are_refused() -> None:
    one, other = dispatcher("a", "x.py", shop="x.py"), dispatcher("b", "y.py", shop="y.py")
    with pytest.raises(ConfigError) as caught:
        refuse_shared([one, other])
    assert str(caught.value) == (
        "two contexts have the module shop: a from 'x.py' and b from 'y.py'; a module belongs to "
        "one context"
    )


def test_what_was_added_later_ends_no_node() -> None:
    refuse_shared([dispatcher("a", "x.py", shop="x.py"), dispatcher("b", "y.py", shop="z.py")])
    refuse_shared([dispatcher("a", "x.py", shop="x.py"), dispatcher("b")])
