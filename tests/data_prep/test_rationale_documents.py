"""Documents with rationales: what is read, and what is refused in a sentence that names the line."""

import gzip
import json

import numpy as np
import pytest

from ea_fairseq.data.documents import read_documents
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.rationales.metrics import auprc
from needs import ENCODER_TASKS, needs_file

MOVIE = {"id": "neg_1", "label": "NEG", "sentences": ["a dull film .", "avoid it ."], "rationales": [[0, 2], [4, 6]]}
TEXT = {"id": "t", "sentences": ["it rains .", "ann stays ."]}
QUESTION = {"id": "t:0", "document": "t", "question": "who stays ?", "answer": "ann", "label": "True"}
QUESTION |= {"rationales": [[3, 6]]}


def write(path, *rows):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)
    return path


def test_a_review_is_words_and_gold_words(tmp_path):
    (review,) = read_documents(write(tmp_path / "a.jsonl.gz", MOVIE))
    assert review.words == ("a", "dull", "film", ".", "avoid", "it", ".")
    assert review.gold.tolist() == [True, True, False, False, True, True, False]
    assert (review.name, review.label, review.question) == ("neg_1", "NEG", "")
    (tmp_path / "b.jsonl").write_text(json.dumps(MOVIE))
    assert read_documents(tmp_path / "b.jsonl") == [review]


def test_a_question_has_the_text_that_it_names(tmp_path):
    write(tmp_path / "documents.jsonl.gz", TEXT)
    (found,) = read_documents(write(tmp_path / "test.jsonl.gz", QUESTION))
    assert found.question == "who stays ? ann" and found.words == ("it", "rains", ".", "ann", "stays", ".")
    assert found.gold.sum() == 3
    (tmp_path / "documents.jsonl.gz").unlink()
    with pytest.raises(UserError, match=r"has neither documents\.jsonl nor documents\.jsonl\.gz"):
        read_documents(tmp_path / "test.jsonl.gz")


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({"rationales": [[0, 8]]}, r"\[0, 8\] is no span \[start, end\) of its 7 words"),
        ({"rationales": [[2, 2]]}, "is no span"),
        ({"rationales": [[-1, 2]]}, "is no span"),
        ({"rationales": [[0, 1, 2]]}, "is no span"),
        ({"rationales": [[0, True]]}, "'rationales' must be a whole number"),
        ({"rationales": None}, "'rationales' must be a list"),
        ({"sentences": [" "]}, "it has no words"),
        ({"sentences": []}, "it has no words"),
        ({"label": 1}, "'label' must be a text"),
        ({"document": "u"}, "has no text 'u'"),
    ],
)
def test_a_bad_line_is_named(tmp_path, change, flaw):
    write(tmp_path / "documents.jsonl.gz", TEXT)
    path = write(tmp_path / "a.jsonl.gz", MOVIE, MOVIE | change)
    with pytest.raises(UserError, match=rf"^line 2 of {path} is no document with rationales: .*{flaw}"):
        read_documents(path)


@pytest.mark.parametrize("line", ["{", "", "[" * 100_000, '{"id": "\\ud800"}', "1" * 5000])
def test_a_line_that_is_not_json_is_named(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text(f"{json.dumps(MOVIE)}\n{line}\n")
    with pytest.raises(UserError, match=f"^line 2 of {path} is not a JSON object"):
        read_documents(path)


def test_no_documents_are_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    (tmp_path / "documents.jsonl").write_text(json.dumps({"id": "t"}))
    with pytest.raises(UserError, match="is empty"):
        read_documents(tmp_path / "a.jsonl")
    with pytest.raises(UserError, match=r"^there is no file"):
        read_documents(tmp_path / "b.jsonl")
    with pytest.raises(UserError, match=r"^line 1 of .*documents\.jsonl is no text: it has no 'sentences'"):
        read_documents(write(tmp_path / "c.jsonl.gz", QUESTION))


@pytest.mark.parametrize(
    ("path", "count", "step", "chance"),
    [
        pytest.param(*case, marks=needs_file(case[0]))
        for case in (
            ("eraser-movies/test.jsonl.gz", 199, 1, 0.316),
            ("../eraser-multirc/test.jsonl.gz", 4848, 16, 0.185),
        )
    ],
)
def test_random_scores_have_the_area_of_chance(path, count, step, chance):
    """Ten draws; of MultiRC's questions every 16th."""
    documents = read_documents(ENCODER_TASKS / path)
    assert len(documents) == count
    draw = np.random.default_rng(1)
    areas = [auprc(one.gold, draw.random(len(one.words))) for one in documents[::step] for _ in range(10)]
    assert np.mean(areas) == pytest.approx(chance, abs=0.004)
