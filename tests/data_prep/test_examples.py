"""Tables of labelled sentences: what each form holds, what is refused, and the numbers of labels."""

import gzip
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.data.labels import Classes, Scores, write_numbers
from ea_fairseq.data.tables import FORMS, check_tables, plain_form, read_examples, take_table
from ea_fairseq.data.text_folder import TextFolder
from ea_fairseq.data.transform import Sample
from ea_fairseq.errors import UserError

LINES = {  # of each form, with the example that it holds
    "cola": ("gj04\t1\t*\tThe sailors  rode.", ("1", "The sailors rode.")),
    "sst-2": ("a charming film \t1", ("1", "a charming film")),
    "mrpc": ('1\t70\t71\tHe said " no .\tHe did .', ("1", 'He said " no .', "He did .")),
    "rte": ("7\tIt rains.\tIt is wet.\tentailment", ("entailment", "It rains.", "It is wet.")),
    "wnli": ("7\tIt rains.\tIt is wet.\t0", ("0", "It rains.", "It is wet.")),
    "sts-b": ("0\tg\tf\t2012\t1\tx\ty\tA man.\tA plane.\t2.500", ("2.500", "A man.", "A plane.")),
    "sts-b-test": ("g\tf\t2012\t1\t2.5\tA man.\tA plane.\tx\ty", ("2.5", "A man.", "A plane.")),
    "sst-5": (r"3 -lrb- a\/b -rrb- is good", ("3", "( a/b ) is good")),
}
HEADERS = {"sst-2": 2, "mrpc": 5, "rte": 4, "wnli": 4, "sts-b": 10}
words = st.text(string.ascii_letters + "äß\"'漢😀", min_size=1, max_size=5)
sentences = st.lists(words, min_size=1, max_size=4).map(" ".join)
tables = st.integers(1, 2).flatmap(
    lambda count: st.lists(st.tuples(words, *[sentences] * count), min_size=1, max_size=20)
)


def write(path, *lines, ending="\n"):
    text = "".join(line + ending for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def header(columns):
    return "\t".join(string.ascii_lowercase[:columns])


@pytest.mark.parametrize("form", FORMS)
def test_an_example_of_each_form(tmp_path, form):
    line, example = LINES[form]
    lines = [header(HEADERS[form]), line] if form in HEADERS else [line]
    assert list(read_examples(write(tmp_path / "table", *lines), FORMS[form])) == [example]


@settings(max_examples=40)
@given(table=tables, ending=st.sampled_from(["\n", "\r\n"]), mark=st.booleans(), suffix=st.sampled_from(["", ".gz"]))
def test_a_plain_table_is_what_was_written(tmp_path_factory, table, ending, mark, suffix):
    path = tmp_path_factory.mktemp("table") / f"train.tsv{suffix}"
    write(path, "\ufeff" * mark + header(len(table[0])), *map("\t".join, table), ending=ending)
    form = plain_form(path)
    assert len(form.sentences) == len(table[0]) - 1
    assert list(read_examples(path, form)) == table


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["label\ta", "1\tx\ty"], "line 2 of .* has 3 columns separated by tabs, not 2"),
        (["label\ta\tb", "1\tx\ty", "1\tx"], "line 3 of .* has 2 columns"),
        (["label\ta", "1\t \x01"], "line 2 of .* has an empty sentence"),
        (["label\ta", " \tx"], "line 2 of .* has no label"),
        (["label\ta", "two words\tx"], "line 2 of .* has no label"),
        (["label\ta", "1" * 101 + "\tx"], "line 2 of .* has no label"),
        (["label\ta"], "has no example"),
        (["only a sentence"], "line 1 of .* must name the columns"),
        (["a\tb\tc\td"], "line 1 of .* must name the columns"),
        ([], "line 1 of .* must name the columns"),
    ],
)
def test_other_tables_are_refused(tmp_path, lines, reason):
    path = write(tmp_path / "train.tsv", *lines)
    with pytest.raises(UserError, match=reason) as refusal:
        list(read_examples(path, plain_form(path)))
    assert "\n" not in str(refusal.value)


def test_damaged_files_are_refused(tmp_path):
    path = write(tmp_path / "train.tsv.gz", "label\ta", *["1\tx"] * 1000)
    whole = path.read_bytes()
    for damaged, reason in ((whole[:-9], "is not a whole gzip"), (b"x" + whole, "is not a whole gzip")):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=reason):
            list(read_examples(path, FORMS["sst-2"]))
    (tmp_path / "x.tsv").write_bytes(b"label\ta\n1\t\xff\n")
    with pytest.raises(UserError, match=r"line 2 of .* is not UTF-8"):
        list(read_examples(tmp_path / "x.tsv", FORMS["sst-2"]))
    with (tmp_path / "x.tsv").open("wb") as file:
        file.truncate(11_000_000)
    with pytest.raises(UserError, match=r"line 1 of .* has more than 10,000,000 bytes"):
        list(read_examples(tmp_path / "x.tsv", FORMS["sst-2"]))


def test_tables_are_found(tmp_path):
    write(tmp_path / "train.tsv", "label\ta")
    with pytest.raises(UserError, match=r"neither valid.tsv nor valid.tsv.gz"):
        check_tables(tmp_path)
    write(tmp_path / "valid.tsv.gz", "label\ta")
    assert [path.name for path in check_tables(tmp_path)[0].values()] == ["train.tsv", "valid.tsv.gz"]
    write(tmp_path / "test.tsv", "label\ta\tb")
    with pytest.raises(UserError, match="differ in their number of sentences"):
        check_tables(tmp_path)
    write(tmp_path / "test.tsv.gz", "label\ta")
    with pytest.raises(UserError, match=r"both test.tsv and test.tsv.gz"):
        check_tables(tmp_path)


def read_folder(path, sides):
    labels = (path / "labels").read_text().split("\n")[:-1]
    texts = [(path / f"text.{side}").read_text().split("\n")[:-1] for side in sides]
    return list(zip(labels, *texts, strict=True))


@settings(max_examples=40)
@given(table=tables, size=st.integers(1, 20), left_out=st.sets(st.integers(0, 19)))
def test_labels_stay_with_their_sentences(tmp_path_factory, table, size, left_out):
    folder = tmp_path_factory.mktemp("table")
    others = [example for number, example in enumerate(table) if number in left_out]
    sides = ("input0", "input1")[: len(table[0]) - 1]
    path = write(folder / "train.tsv", header(len(table[0])), *map("\t".join, table))
    known = write(folder / "others.tsv", header(len(table[0])), *map("\t".join, others or [("?",) * len(table[0])]))
    take_table(folder / "out", table=path, sides=sides, without=known, sample=Sample(size, seed=1))
    made, left = read_folder(folder / "out", sides), [example for example in table if example not in others]
    assert len(made) == min(size, len(left)) == TextFolder(folder / "out", sides).history.kept
    places = iter(left)
    assert all(example in places for example in made)  # in their order


def test_another_number_of_sentences_is_refused(tmp_path):
    path = write(tmp_path / "train.tsv", "label\ta", "1\tx")
    with pytest.raises(UserError, match="has 1 sentences per example, but must have 2"):
        take_table(tmp_path / "out", table=path, sides=("a", "b"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["10", "9", "10", "-1"], ["-1", "9", "10"]),
        (["+1", "-1"], ["-1", "+1"]),
        (["pos", "neg"], ["neg", "pos"]),
        (["a", "1", "10", "9"], ["1", "10", "9", "a"]),
    ],
)
def test_classes_are_in_order(tmp_path, labels, names):
    path = write(tmp_path / "labels", *labels)
    classes = Classes.found_in(path)
    assert classes.names == names
    write_numbers(path, classes, "train", tmp_path / "numbers")
    assert [names[int(number)] for number in (tmp_path / "numbers").read_text().split()] == labels


def test_what_are_no_classes_or_scores(tmp_path):
    with pytest.raises(UserError, match="have 1 different labels"):
        Classes.found_in(write(tmp_path / "labels", "1", "1"))
    with pytest.raises(UserError, match=r"have 1001 different labels.*--regression"):
        Classes.found_in(write(tmp_path / "labels", *map(str, range(1001))))
    with pytest.raises(UserError, match=r"label 2 of valid is c, and must be one of a, b\."):
        write_numbers(write(tmp_path / "labels", "a", "c"), Classes(["a", "b"]), "valid", tmp_path / "numbers")
    for label, kind, wanted in (("nan", Scores(), "a number"), ("x", Scores(), "a number"), ("5.1", Scores(5), "to 5")):
        with pytest.raises(UserError, match=f"label 1 of test is {label}, and must be .*{wanted}"):
            write_numbers(write(tmp_path / "labels", label), kind, "test", tmp_path / "numbers")


@given(score=st.floats(0, 5))
def test_scores_are_parts_of_the_largest(score):
    assert float(Scores(5).number(str(score))) * 5 == pytest.approx(score)
    assert float(Scores().number(str(score))) == score
