"""Fixtures of the tests of downloads."""

from pathlib import Path

import pytest

from downloads import FILES, Download
from mirror import Mirror


@pytest.fixture
def mirror():
    with Mirror(FILES) as mirror:
        yield mirror


@pytest.fixture
def corpus(tmp_path: Path, mirror: Mirror) -> Download:
    return Download(tmp_path, mirror.url)
