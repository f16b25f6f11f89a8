"""What a command is given, checked before any work is done: where to read, where to write, on which device."""

from __future__ import annotations

from pathlib import Path

from tarbox.core.errors import ConfigError, StoreMissing


def check_kb(path: Path) -> None:
    """Refuse a run or a benchmark where a store is meant, and name the store in it."""
    from tarbox.benchmark.folder import STORE, is_benchmark
    from tarbox.models.saved import is_run, open_run, what_is_at

    if is_run(path) or is_benchmark(path):
        store = (open_run(path).content if is_run(path) else path) / STORE
        raise StoreMissing(f"{what_is_at(path)}, not a store. The store of its training facts is {store}.")


def check_output(path: Path | None) -> None:
    """Refuse a file that cannot be written."""
    if path is not None and path.is_dir():
        raise ConfigError(f"cannot write {path}: it is a folder")
    if path is not None and not path.parent.is_dir():
        raise ConfigError(f"cannot write {path}: there is no folder {path.parent}")


def check_plot(path: Path | None) -> None:
    """Refuse a picture that cannot be written, or is of no known kind."""
    from tarbox.evaluation.plots import check_format

    check_output(path)
    if path is not None:
        check_format(path)


def check_device(name: str) -> str:
    """The device as torch calls it; `cpu` is known without torch."""
    if name == "cpu":
        return name
    from tarbox.training.hardware import find_device

    return str(find_device(name))
