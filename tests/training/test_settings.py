"""Settings: what is unknown or out of range is refused with advice; what is written can be read again."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from tarbox.core.errors import ConfigError
from tarbox.models.base import Sizes
from tarbox.models.learning.negatives import NegativesConfig, Sampler
from tarbox.models.registry import find_model
from tarbox.models.saved import build_model
from tarbox.training.hardware import HardwareConfig, open_hardware
from tarbox.training.settings import Settings, read_assignments, read_file, read_recipe, resolve
from tarbox.training.step import Engine, build_optimizer

RECIPES = ("academia", "biomed", "dbpedia", "dbpedia77k", "yago4")


def given(*assignments: str) -> Settings:
    return resolve([read_assignments(assignments, "tar")], "tar")


def test_the_defaults_are_the_paper_s() -> None:
    settings = resolve([])
    assert settings.model_name == "tar"
    assert settings.negatives.count == 4
    assert (settings.model["epsilon"], settings.model["p"], settings.model["margin"]) == (1e-12, 1.0, 12.0)
    assert settings.model["t_norm"] == "product"
    assert (settings.validation.every, settings.validation.tolerance) == (50, 3)


def test_short_and_long_keys() -> None:
    settings = given("rate=1e-4", "model.dimension=32", "decay=linear", "objective.weights.concept=2", "seed=7")
    assert settings.optimizer.rate == 1e-4
    assert settings.model["dimension"] == 32
    assert settings.optimizer.decay == "linear"
    assert settings.objective.weights.concept == 2.0
    assert settings.seed == 7


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (
            "optimizer.rat=1",
            r"no setting 'optimizer\.rat'\. Did you mean 'optimizer\.rate'\? Known here: optimizer\.kind,",
        ),
        ("rte=1", r"no setting 'rte'\. Did you mean 'rate'\?"),
        ("adam.rate=1", r"no setting 'adam'.* Known here: seed, model, batches"),
        ("model.dimensions=3", r"Did you mean 'model\.dimension'\?"),
        ("rate=fast", "optimizer.rate is 'fast'; it must be a number"),
        ("rate=nan", "optimizer.rate is nan; it must be a number"),
        ("rate=0", "it must be greater than 0"),
        ("epochs=1.5", "stopping.epochs is 1.5; it must be a whole number"),
        ("decay=step", "decay = .step.: choose one of constant, linear, cosine"),
        ("minutes=1", r"which one\? stopping\.minutes, checkpoints\.minutes"),
        ("optimizer=3", "no setting .optimizer."),
        ("seed=-1", "seed is -1; it must be a whole number, 0 or more"),
        ("rate", "--set needs key=value"),
        ('objective.without=["everything"]', "it must be one of entity, concept, subsumption, instantiation"),
        ("t_norm=min", "t_norm = 'min': choose one of product"),
        ("size=0", "batches.size is 0; it must be at least 1"),
    ],
)
def test_mistakes_get_advice(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        given(assignment)


def test_an_untrained_model_has_no_settings() -> None:
    assert resolve([], "counting").model == {"name": "counting"}
    with pytest.raises(ConfigError, match=r"no setting 'model\.dimension'\. Known here: none"):
        resolve([{"model": {"dimension": 3}}], "counting")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    settings = given("rate=1e-4", 'objective.without=["subsumption"]', "precision=bf16")
    file = tmp_path / "config.toml"
    file.write_text(settings.toml())
    assert resolve([read_file(file)]) == settings
    assert tomllib.loads(settings.toml())["objective"]["without"] == ["subsumption"]


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "marked.toml"
    file.write_text("\ufeffseed = 7\n", encoding="utf-8")
    assert read_file(file) == {"seed": 7}


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("rate = = 3")
    with pytest.raises(ConfigError, match=r"config\.toml is not TOML: .*line 1"):
        read_file(file)
    with pytest.raises(ConfigError, match="cannot read"):
        read_file(tmp_path / "nothing.toml")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_resolves(name: str) -> None:
    assert resolve([read_recipe(name)]).model_name == "tar"


def test_an_unknown_recipe() -> None:
    with pytest.raises(ConfigError, match=r"no recipe 'yago'; there are academia, beta, biomed, .*, yago4"):
        read_recipe("yago")


def test_adamw_takes_its_decay_from_the_weights_and_adam_from_the_gradient() -> None:
    """Without a gradient AdamW shrinks a weight by rate times decay; Adam makes a gradient of it, and a whole step."""
    hardware, shrunk = open_hardware(HardwareConfig("cpu")), {}
    for kind in ("adam", "adamw"):
        model = torch.nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            model.weight.fill_(2.0)
        config = resolve(
            [read_assignments([f"kind={kind}", "optimizer.rate=0.1", "weight_decay=0.05"], "gqe")]
        ).optimizer
        optimizer = build_optimizer(config, model, hardware)  # type: ignore[arg-type]
        model.weight.grad = torch.zeros_like(model.weight)
        optimizer.step()
        shrunk[kind] = model.weight.item()
    assert shrunk == pytest.approx({"adam": 1.9, "adamw": 2 * (1 - 0.1 * 0.05)})


@pytest.mark.parametrize("kind", ["adam", "adamw", "adagrad"])
def test_tables_of_entities_and_relations_have_a_rate_of_their_own(kind: str) -> None:
    """A first step of Adam or Adagrad is as long as the rate, whatever the gradient is."""
    model = build_model(find_model("beta"), {"name": "beta", "dimension": 2, "hidden": 3}, Sizes(4, 0, 2))
    table = read_assignments([f"kind={kind}", "optimizer.rate=1e-3", "tables=10"], "beta")
    optimizer = build_optimizer(resolve([table]).optimizer, model, open_hardware(HardwareConfig("cpu")))
    engine = Engine(model, None, None, optimizer, Sampler(NegativesConfig(), torch.Generator()))  # type: ignore[arg-type]
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for rate in (1e-3, 5e-4):
        engine.set_rate(rate)
        assert sorted(group["lr"] for group in optimizer.param_groups) == pytest.approx([rate, 10 * rate])
    engine.set_rate(1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.3)
    optimizer.step()
    for name, parameter in model.named_parameters():
        wanted = 1e-2 if name in ("inner.entities", "inner.relations") else 1e-3
        assert (before[name] - parameter).mean().item() == pytest.approx(wanted, rel=1e-3)
    assert len(before) == 2 + 6 + 3


def test_the_rate_of_tables_is_above_0() -> None:
    with pytest.raises(ConfigError, match=r"tables = 0\.0: it must be greater than 0"):
        given("tables=0")


def test_settings_that_are_gone_are_read_where_they_say_what_holds_anyway() -> None:
    older = {"model": {"name": "tar", "project": "push"}, "hardware": {"compile": False, "graphs": False}}
    assert resolve([older]) == resolve([{"model": {"name": "tar"}, "hardware": {"graphs": False}}])
    gqe = {"model": {"name": "gqe", "projection": "translation"}, "batches": {"one_hop": True, "positives": "all"}}
    ones = dict.fromkeys(("entity", "concept", "subsumption", "instantiation"), 1.0)
    assert resolve([gqe, {"objective": {"average": "template", "scales": ones}}]) == resolve([], "gqe")
    assert resolve([{"model": {"name": "beta", "union": "dnf"}}]) == resolve([], "beta")
    assert resolve([{"model": {"name": "tar", "union": "vector"}}]).model["union"] == "vector"
    for other in (
        {"model": {"project": "exact"}},
        {"hardware": {"compile": True}},
        {"batches": {"positives": "target"}},
    ):
        with pytest.raises(ConfigError, match="no setting"):
            resolve([other])
