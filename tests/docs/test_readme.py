"""The README shows what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from scaler.config.keys import metadata_table
from scaler.config.manifest import check_manifests

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_metadata_table_is_the_codes() -> None:
    """Each key, its default and its meaning stand in the README as the parser has them."""
    assert metadata_table() in README


def test_every_link_leads_somewhere() -> None:
    """A relative link in README, CONTRIBUTING or docs names a file that exists."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_scaled_object_passes_check() -> None:
    """The example has neither an error nor a warning, and its trigger is valid."""
    blocks = re.findall(r"```yaml\n(apiVersion.*?)```", README, re.DOTALL)
    assert len(blocks) == 1
    assert yaml.safe_load(blocks[0])["kind"] == "ScaledObject"
    assert check_manifests(blocks[0], "README.md") == []
