"""What a node was told: its contexts, and what a worker hears of its own."""

from __future__ import annotations

import pytest

from tontine.errors import ConfigError
from tontine_node.config import ContextConfig, NodeConfig

MAIL = ContextConfig("mail", ("mail.tasks",), "mail.context:mail", slots=50, env={"KEY": "secret"})


def test_modules_make_the_context_default_with_the_limits_beside_them() -> None:
    config = NodeConfig(("shop.tasks",), processes=4, slots=2, max_jobs=9, max_memory=2**28)
    made = ContextConfig("default", ("shop.tasks",), None, 4, 2, max_jobs=9, max_memory=2**28)
    assert config.contexts == (made,)


def test_contexts_that_are_named_need_no_modules_beside_them() -> None:
    assert NodeConfig(contexts=(MAIL,)).contexts == (MAIL,)


def test_a_node_without_modules_or_contexts_is_refused() -> None:
    with pytest.raises(ConfigError, match="name at least one module"):
        NodeConfig()


def test_a_worker_hears_what_to_load_and_no_values_of_variables() -> None:
    argument = MAIL.argument()
    heard = ContextConfig.of_argument(argument)
    assert (heard.name, heard.modules, heard.profile) == (MAIL.name, MAIL.modules, MAIL.profile)
    assert "secret" not in argument
