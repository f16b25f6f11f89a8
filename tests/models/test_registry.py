"""What `--model` may name: a registered model, or a class that is one."""

from __future__ import annotations

import pytest

from tarbox.core.errors import ConfigError
from tarbox.models.registry import MODELS, find_model


def test_a_registered_model_by_its_address() -> None:
    for name, address in MODELS.items():
        assert find_model(address) is find_model(name)


@pytest.mark.parametrize("address", ["os:path", "json:JSONEncoder", "json:dumps", "torch.nn:Linear"])
def test_what_is_no_model_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=f"'{address}' is no model: it extends neither"):
        find_model(address)


@pytest.mark.parametrize("address", ["tarbox.models.base:Model", "tarbox.models.learning.seam:Learner"])
def test_what_is_half_a_model_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="is no complete model"):
        find_model(address)


@pytest.mark.parametrize("address", [":x", "os:", "..os:path", "no.such.module:Model", "a b:c"])
def test_an_address_that_leads_nowhere_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"no model .* Write a registered name or package\.module:Class"):
        find_model(address)


def test_where_a_model_of_one_s_own_is_looked_for_is_said() -> None:
    """The command `tarbox`, unlike `python -m tarbox`, does not look in the current folder."""
    with pytest.raises(ConfigError, match=r"No module named 'my_package'.*, installed or on PYTHONPATH"):
        find_model("my_package.module:Class")
