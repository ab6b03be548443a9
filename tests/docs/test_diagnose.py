"""The page on findings has a section for each kind, and says of each what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scaler.cli.diagnose import FOUND
from scaler.core.diagnosis_finding import ADVICE, Kind

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "diagnose.md").read_text(encoding="utf-8")
_OTHER = {"Three memories", "Events"}


def sections() -> dict[str, str]:
    """Return the page's sections by heading, in their order."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_kind_has_a_section_and_no_other() -> None:
    """A kind that is added or renamed is missed here, in the order in which kinds are listed."""
    kinds = [heading for heading in sections() if heading not in _OTHER]
    assert kinds == [kind.value for kind in Kind]


@pytest.mark.parametrize("kind", Kind)
def test_each_section_has_evidence_and_a_cure(kind: Kind) -> None:
    """How grave it is, what it rests on, and what to do."""
    section = sections()[kind.value]
    assert re.match(r"\s*(?:Critical|Warning|Note)\b", section)
    assert "**Evidence.**" in section
    assert "**What to do.**" in section


@pytest.mark.parametrize("kind", Kind)
def test_flags_that_are_advised_stand_on_the_page(kind: Kind) -> None:
    """An engine's flag in the command's advice is explained in the kind's section, or its start."""
    flags = set(re.findall(r"--[a-z][a-z-]+", ADVICE[kind]))
    told = sections()[kind.value]
    assert not {flag for flag in flags if flag not in told}


def test_the_exit_status_is_the_commands() -> None:
    """The page's table has the status that the command ends with."""
    assert f"| {FOUND} | there is a warning, or worse |" in PAGE
