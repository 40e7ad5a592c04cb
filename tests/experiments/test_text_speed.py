"""benchmark.py with trained models that translate a text, and with another engine."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

import forked
from commands import ROOT
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark import workers
from ea_fairseq.experiments.benchmark.cases import EVOLVING, PLAIN, Case, Plan, Settings, Variant
from ea_fairseq.experiments.benchmark.command import main
from ea_fairseq.experiments.benchmark.peer import PeerGeneration, PeerTranslation, tokens_of
from ea_fairseq.experiments.benchmark.tables import tables
from ea_fairseq.experiments.benchmark.translation import Translation
from fake_benchmarks import fake_benchmark

SETTINGS = Settings(dictionary=20)
TEXT = [
    "Der Arzt bringt Wein mit.",
    "Ich fahre ins Dorf, um einen Teppich zu verkaufen.",
    "",
    "Seinen Onkel wird er am Sonntag abholen.",
]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.de"
    path.write_text("".join(f"{line}\n" for line in TEXT))
    return Case("translation", "", 0, 2, beam=2, text=str(path))


def of_trained(variant: Variant, model: str = "embedded-transformer_lite") -> Variant:
    return replace(variant, model=str(ROOT / "checkpoints" / model))


def test_a_text_is_the_same_work_for_trained_models(text):
    sides = [
        Translation(text, of_trained(variant, model), SETTINGS)
        for variant, model in ((PLAIN, "embedded-transformer_lite"), (EVOLVING, "embedded-ea_transformer_lite"))
    ]
    lengths = [[len(sentence) for sentence in batch] for batch in sides[0].batches]
    assert [len(batch) for batch in lengths] == [2, 1]
    assert list(chain(*lengths)) == sorted(chain(*lengths))
    assert sides[0].words == sides[1].words == sum(map(sum, lengths))
    for side in sides:
        side.step()
    alone = Translation(replace(text, sentences=1), of_trained(PLAIN), SETTINGS)
    assert [len(batch) for batch in alone.batches] == [1]


def test_a_text_or_model_that_is_not_there_is_named(text):
    with pytest.raises(UserError, match=r"no\.de"):
        Translation(replace(text, text="no.de"), of_trained(PLAIN), SETTINGS)
    with pytest.raises(UserError, match="no_such_model"):
        Translation(text, of_trained(PLAIN, "no_such_model"), SETTINGS)
    Path(text.text).write_text("\n\n")
    with pytest.raises(UserError, match="no sentence"):
        Translation(text, of_trained(PLAIN), SETTINGS)


def test_another_engine_finds_the_same_words(text):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    side = PeerTranslation(text, of_trained(replace(PLAIN, peer="float32")), SETTINGS)
    hub = side.hub
    for (sentences, longest), sample in zip(side.prepared, side.samples, strict=True):
        found = side.engine(sentences, max_decoding_length=longest)
        expected = hub.task.inference_step(side.generator, hub.models, sample)
        best = [tokens_of(hub.tgt_dict, hypotheses[0]["tokens"]) for hypotheses in expected]
        assert sorted(found) == sorted(best)  # fairseq sorts a batch


def test_another_engine_searches_hypotheses_of_one_length():
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    side = PeerGeneration(Case("generation", "lite", 6, 3, beam=2), replace(PLAIN, peer="int8"), SETTINGS)
    assert side.words == 18
    side.step()


def test_trained_models_translate_a_text_beside_another_engine():
    plan = Plan(peers=True, models=("plain", "evolving"), text="somewhere/test.de")
    assert [(one.name, one.model, one.peer) for one in plan.variants("translation")] == [
        ("Transformer", "plain", ""),
        ("EA", "evolving", ""),
        ("CTranslate2", "plain", "float32"),
        ("CTranslate2, int8", "plain", "int8"),
    ]
    assert [variant.name for variant in plan.variants("generation")[-2:]] == ["CTranslate2", "CTranslate2, int8"]
    assert plan.variants("training") == Plan().variants("training")
    half = Plan(native=("native_bf16", "native_int8"), models=("plain", "evolving"), text="somewhere/test.de")
    for part in ("generation", "translation"):
        assert [variant.name for variant in half.variants(part) if variant.precision] == [
            "EA, native bf16",
            "EA, native int8",
        ]
    assert [case.title for case in plan.cases("translation")] == [
        "test.de, beam 5, batch 128",
        "test.de, greedy, batch 128",
        "test.de, beam 5, batch 1",
    ]
    made = fake_benchmark(parts=("translation",), models=("plain", "evolving"), text="test.de")
    ((title, table),) = tables(made)
    assert title == "Translation of a text by trained models"
    assert "Source words" in table.notes[0]


def test_a_case_that_no_variant_can_run_says_why(tmp_path, monkeypatch):
    (tmp_path / "text").write_text("a\n")
    flags = ["--models", f"{tmp_path / 'none'},{tmp_path / 'none'}", "--text", str(tmp_path / "text"), "--quick"]
    monkeypatch.setattr("sys.argv", ["benchmark.py", *flags, "--out", str(tmp_path / "out.json")])
    monkeypatch.setattr(workers, "prepare_processes", lambda *_: forked.context)
    with pytest.raises(UserError, match=r"nothing can be measured: .*none"):
        main()
