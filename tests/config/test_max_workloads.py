"""`maxWorkloads`: the key that a full scaler's refusal names is there, and is obeyed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.app import Application
from scaler.config.faults import ConfigInvalid
from scaler.config.server import ServerConfig, load_config
from scaler.control.registry import RegistryFull

SOURCE = "sources: {main: {type: prometheus, url: 'http://127.0.0.1:1'}}\n"


def _config(tmp_path: Path, text: str) -> ServerConfig:
    file = tmp_path / "config.yaml"
    file.write_text(SOURCE + text, encoding="utf-8")
    return load_config(file, {}, {})


def test_twenty_thousand_by_default(tmp_path: Path) -> None:
    """As the reference says."""
    assert _config(tmp_path, "").max_workloads == 20_000


async def test_the_registry_is_held_to_it(tmp_path: Path) -> None:
    """One more than allowed is refused with the key's name; those that are known are served."""
    config = _config(tmp_path, "maxWorkloads: 2\n")
    registry = Application(lambda: config).registry
    for name in ("a", "b", "a"):
        registry.ask("llm", name, {"modelName": "llama"})
    with pytest.raises(RegistryFull, match="already holds 2 workloads; raise maxWorkloads"):
        registry.ask("llm", "c", {"modelName": "llama"})


@pytest.mark.parametrize("value", ["0", "-1", "1000001", "many", "1.5"])
def test_what_is_no_number_of_workloads_is_refused(tmp_path: Path, value: str) -> None:
    """None would serve nobody."""
    with pytest.raises(ConfigInvalid, match="maxWorkloads"):
        _config(tmp_path, f"maxWorkloads: {value}\n")
