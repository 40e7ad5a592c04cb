"""Fixtures of the tests of experiments."""

import logging
import sys
import warnings

import pytest
from matplotlib.figure import Figure

from fake_results import write_two_models


@pytest.fixture(scope="session")
def two_models(tmp_path_factory):
    """Three seeds of one model and two of another."""
    return write_two_models(tmp_path_factory.mktemp("results of two"))


@pytest.fixture
def attention_maps(monkeypatch, capsys):
    """Runs scripts/attention_maps.py in this process; returns what it prints."""
    from ea_fairseq.experiments.maps.attention_maps import main  # takes seconds

    def run(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["attention_maps.py", *map(str, arguments)])
        monkeypatch.setattr(logging, "disable", lambda level: None)
        with warnings.catch_warnings():
            main()
        return capsys.readouterr().out

    return run


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are drawn, of which none is saved."""
    found = []

    def keep(figure, path, **options):
        path.touch()
        if figure not in found:
            found.append(figure)

    monkeypatch.setattr(Figure, "savefig", keep)
    return found
