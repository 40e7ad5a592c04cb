"""What is written in a recipe is read from it, and words of commands are told apart, whatever they are."""

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.recipe import Recipe, last_value
from ea_fairseq.experiments.runs.sweep import split_tried
from ea_fairseq.experiments.runs.train import NOT_IN_NAMES, as_folder, distinguishing

FLAGS = st.from_regex("--[a-z][a-z-]{0,8}[a-z]", fullmatch=True)
VALUES = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=1, max_size=8).filter(
    lambda value: not value.startswith("-")
)
LINES = st.lists(st.tuples(FLAGS, st.lists(VALUES, max_size=2).map(" ".join)))
NOISE = st.sampled_from(["", "# --not this", "   ", "\t# nor [this]"])
SPACE = st.sampled_from(["", " ", "\t", "  \t"])


@given(LINES, LINES, st.data())
def test_flags_are_read_as_they_are_written_between_whatever_else_there_is(train, evaluate, data):
    lines = []
    for section, flags in (("train", train[:1]), ("evaluate", evaluate), ("train", train[1:])):
        lines.append(f"{data.draw(SPACE)}[{section}]{data.draw(SPACE)}")
        for flag, value in flags:
            lines += [data.draw(NOISE), f"{data.draw(SPACE)}{flag} {data.draw(SPACE)}{value}{data.draw(SPACE)}\r"]
    recipe = Recipe("/mine.recipe", "\n".join(lines))
    for section, flags in (("train", train), ("evaluate", evaluate)):
        assert recipe.flags(section) == [word for line in flags for word in line if word]
    assert recipe.flags("data") == []


@given(LINES, FLAGS, st.sampled_from(["", " 1"]))
def test_a_flag_that_may_not_stand_there_is_refused_by_its_line(lines, flag, value):
    text = "[evaluate]\n" + "".join(f"{name} {words}\n" for name, words in lines)
    allowed = {name: bool(words) for name, words in lines}
    recipe = Recipe("/a run/recipe", f"{text}{flag}{value}\n")
    allowed[flag] = not value
    with pytest.raises(UserError, match=r"^/a run/recipe, line \d+: '.*' is not for a recipe next to checkpoints"):
        recipe.flags("evaluate", allowed)


@given(st.binary())
def test_the_bytes_of_a_recipe_are_kept(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.recipe"
    path.write_bytes(content)
    assert Recipe.read(path).text.encode("utf-8", "surrogateescape") == content


@given(st.lists(FLAGS | VALUES), FLAGS, VALUES, st.lists(VALUES))
def test_the_last_value_of_a_flag_counts_in_either_way_to_write_it(before, flag, value, after):
    assert last_value(flag, [*before, flag, value, *after]) == value
    assert last_value(flag, [*before, f"{flag}={value}", *after]) == value
    assert last_value(flag, [word for word in before if word.partition("=")[0] != flag]) is None


@given(st.lists(st.tuples(FLAGS, VALUES)), st.sampled_from(NOT_IN_NAMES), VALUES, st.integers(0, 9))
def test_what_tells_no_models_apart_is_not_in_their_names(flags, other, value, place):
    named = [(flag, value) for flag, value in flags if flag not in NOT_IN_NAMES]
    mixed = [*named[:place], (other, value), *named[place:]]
    words = [word for flag in mixed for word in flag]
    assert distinguishing(words) == "".join(f" {flag} {value}" for flag, value in named)
    folder = as_folder(distinguishing(words))
    assert re.fullmatch("[A-Za-z0-9._-]*", folder) and as_folder(folder) == folder


@given(st.lists(st.tuples(FLAGS, st.lists(VALUES, min_size=1, max_size=3)), min_size=1, max_size=3))
def test_every_value_is_tried_with_every_other(tried):
    tried = [(flag, values) for flag, values in tried if flag not in NOT_IN_NAMES]
    words = [word for flag, values in tried for word in ("--try", flag, *values)]
    others, found = split_tried(["a/recipe", *words, "--seeds", "1,2"])
    assert others == ["a/recipe", "--seeds", "1,2"]
    flags = [flag for flag, _ in tried]
    expected = [list(zip(flags, values, strict=True)) for values in product(*(values for _, values in tried))]
    assert [list(map(tuple, combination)) for combination in product(*found)] == expected


@pytest.mark.parametrize("words", [["--try"], ["--try", "--lr"], ["--try", "1", "2"], ["--try", "--lr", "--seeds"]])
def test_a_flag_is_tried_with_values(words):
    with pytest.raises(UserError, match="--try needs a flag and its values"):
        split_tried(words)


def test_a_recipe_beside_checkpoints_may_be_missing(tmp_path: Path):
    assert Recipe.beside(tmp_path) is None
