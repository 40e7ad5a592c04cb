"""fairseq's commands train encoders, tune them for pairs of sentences and continue from their checkpoints."""

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY

from ea_fairseq.errors import UserError
from forked import run_forked, run_forked_well
from hostile_checkpoints import TEXTS, Mutation, set_option
from hostile_watch import watching
from reversal import losses_of
from sentence_data import TEXT, binarize_sentences, encoder_command

RESETS = ["--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler"]
NEW = "2 convolutions with 296 parameters are new and start as the identity, all other parameters are loaded"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return binarize_sentences(tmp_path_factory.mktemp("user"))


def train(home, task, folder, updates, *flags, **options) -> tuple[dict[int, float], str]:
    log = run_forked_well(*encoder_command(task, folder, updates, *flags, **options), cwd=home)
    return losses_of(log), log


@pytest.fixture(scope="module")
def evolving(home):
    """The losses of a training of an evolving encoder, whose checkpoints the other tests use."""
    return train(home, "masked_lm", "evolving", 16)[0]


@pytest.fixture(scope="module")
def roberta(home):
    """A checkpoint of fairseq's RoBERTa of the same size."""
    sizes = ["--encoder-embed-dim", "128", "--encoder-ffn-embed-dim", "512", "--encoder-attention-heads", "4"]
    train(home, "masked_lm", "plain", 2, *sizes, arch="roberta")
    return "plain/checkpoint_last.pt"


def test_masked_words_are_learned_and_a_training_goes_on(home, evolving):
    assert list(evolving) == list(range(1, 17))
    assert evolving[16] < evolving[1]
    halves = [train(home, "masked_lm", "halves", updates)[0] for updates in (10, 16)]
    assert halves[0] | halves[1] == evolving


@pytest.mark.parametrize(
    "arch",
    [
        "ea_roberta_tiny",
        "ea_bert_tiny",
        pytest.param("composite_roberta_tiny", marks=pytest.mark.slow),
        pytest.param("pa_roberta_tiny", marks=pytest.mark.slow),
    ],
)
def test_fairseqs_roberta_is_tuned_by_restore_file_alone(home, roberta, arch):
    restore = ["--restore-file", roberta, *RESETS, "--max-positions", "16"]
    metrics = ["--report-mcc", "--best-checkpoint-metric", "mcc", "--maximize-best-checkpoint-metric"]
    folder = f"tuned {arch}"
    losses, log = train(home, "sentence_prediction", folder, 6, *restore, *metrics, arch=arch)
    assert len(losses) == 6
    assert "valid_mcc" in log and "valid_pred" not in log and "valid_targ" not in log
    assert log.count("the checkpoint is a plain model's: ") == 1
    if arch == "ea_roberta_tiny":
        assert NEW in log
    more, log = train(home, "sentence_prediction", folder, 12, *metrics, "--max-positions", "16", arch=arch)
    assert list(more) == list(range(7, 13))
    assert "plain model's" not in log


def test_a_regression_that_keeps_its_best_correlation_goes_on(home):
    regression = ["--regression-target", "--num-classes", "1", "--report-pearson-and-spearman"]
    best = ["--best-checkpoint-metric", "pearson_and_spearman", "--maximize-best-checkpoint-metric"]
    train(home, "sentence_prediction", "scores", 6, *regression, *best)
    losses, log = train(home, "sentence_prediction", "scores", 12, *regression, *best)
    assert list(losses) == list(range(7, 13))
    assert "valid_best_pearson_and_spearman" in log


@pytest.mark.usefixtures("evolving")
def test_fairseqs_roberta_refuses_an_evolving_checkpoint(home):
    sizes = ["--encoder-embed-dim", "128", "--encoder-ffn-embed-dim", "512", "--encoder-attention-heads", "4"]
    restore = ["--restore-file", "evolving/checkpoint_last.pt", *RESETS]
    result = run_forked(*encoder_command("masked_lm", "refused", 1, *sizes, *restore, arch="roberta"), cwd=home)
    assert result.returncode == 1
    assert "Cannot load model parameters from checkpoint evolving/checkpoint_last.pt" in result.stderr.splitlines()[-1]
    assert "self_attn.conv.weight" in result.stderr.splitlines()[-1]


def test_other_words_are_masked_in_each_epoch(home):
    """Of a model that learns nothing, losses differ by what is masked."""
    still = ["--lr", "0", "--dropout", "0", "--attention-dropout", "0", "--batch-size", "64"]
    losses, _ = train(home, "masked_lm", "still", 4, *still)
    assert len(set(losses.values())) == 4


@pytest.mark.parametrize("task", ["masked_lm", "sentence_prediction"])
def test_our_criterion_trains_as_fairseqs_and_in_bfloat16_nearly_so(home, task):
    exact = ["--dropout", "0", "--attention-dropout", "0"]
    ours = ["--criterion", f"ea_{task}"]

    def losses_of_training(folder, updates, *flags):
        return train(home, task, f"{task} {folder}", updates, *exact, *flags)[0]

    losses = losses_of_training("fairseq's", 8)
    assert losses_of_training("ours", 8, *ours) == losses
    half = [*ours, "--autocast", "bf16", "--optimizer", "adamw"]
    rounded = losses_of_training("bfloat16", 4, *half) | losses_of_training("bfloat16", 8, *half)
    assert rounded != losses
    assert rounded == pytest.approx(losses, abs=0.05)
    saved = torch.load(home / f"{task} bfloat16" / "checkpoint_last.pt")
    assert {tensor.dtype for tensor in saved["model"].values()} == {torch.float32}


def test_sentences_can_be_blocks_of_their_own(home):
    assert len(train(home, "masked_lm", "by sentence", 2, "--sample-break-mode", "eos")[0]) == 2


def test_a_flag_of_a_decoder_ends_in_a_sentence(home):
    result = run_forked(*encoder_command("masked_lm", "refused", 1, "--decoder-skip"), cwd=home)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("fairseq-train: --decoder-skip is a flag of decoders")


@pytest.fixture(scope="module")
def tuned(home):
    train(home, "sentence_prediction", "pairs", 1, arch="ea_bert_tiny")
    return home / "pairs/checkpoint_last.pt"


@pytest.mark.usefixtures("evolving")
@pytest.mark.parametrize("folder", ["evolving", "plain", "pairs"])
def test_fairseq_reads_a_checkpoint_back(home, roberta, tuned, folder):
    path = home / folder / "checkpoint_last.pt"
    data = str(home / (TEXT if folder != "pairs" else "my pairs"))
    with watching(home):
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": data})
    assert type(model) is ARCH_MODEL_REGISTRY[model.args.arch]
    head = {"classification_head_name": "sentence_classification_head"} if folder == "pairs" else {}
    output = model.eval()(torch.tensor([[0, 5, 6, 2]]), **head)[0]
    assert output.size(-1) == (2 if head else len(task.source_dictionary))


SENTENCES = {
    "model.max_positions is 9223372036854775807, and must be a whole number": ("model", "max_positions", (1 << 63) - 1),
    "its options describe a larger model than its": ("model", "encoder_layers", 1_000),
    "model.pooler_activation_fn is .*, and must be one of": ("model", "pooler_activation_fn", TEXTS["a call"]),
    "model.classification_head is .*, and must be class_token or pooled": ("model", "classification_head", "mean"),
    "model.layer_norm_eps is .*, and must be a number above 0": ("model", "layer_norm_eps", TEXTS["a call"]),
    "task.seed is .*, and must be a whole number": ("task", "seed", TEXTS["a call"]),
}


@pytest.mark.parametrize(("sentence", "change"), SENTENCES.items(), ids=lambda part: str(part)[:30])
def test_a_changed_checkpoint_is_refused_in_a_sentence(home, tuned, sentence, change):
    path = tuned.with_name("changed.pt")
    Mutation("", set_option(*change)).write(torch.load(tuned), path)
    with watching(home) as seen, pytest.raises(UserError, match=f"changed.pt is refused: {sentence}"):
        checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(home / "my pairs")})
    assert not seen
