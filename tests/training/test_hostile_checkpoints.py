"""A changed checkpoint runs nothing, tells nothing, opens nothing, and is used or refused in one sentence.

So is a changed folder of a released model: config.json and model.safetensors.
"""

import copy
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from checkpoints import save_dictionaries, save_loud
from ea_fairseq import EATransformerModel
from ea_fairseq.checkpoint.released import write_released
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.hub.files import recorded_data
from forked import run_forked
from hostile_checkpoints import (
    SECRET,
    TEXTS,
    Mutation,
    as_of_old,
    changed_options,
    other_changes,
    set_option,
)
from hostile_released import released_changes, released_state, save_released
from hostile_watch import watching
from reversal import generate_command, train_command

CHUNK, CHUNKS = 20, {"pt": 175, "safetensors": 50}
SENTENCE = "w1 w2 w3"
TRAININGS = "scripts for checkpoints of a training"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model with its dictionaries and subword codes, and beside the folder a file of somebody's."""
    home = tmp_path_factory.mktemp("a user")
    (home / "outside").mkdir()
    (home / "outside/notes").write_text("private\n")
    folder = save_dictionaries(home / "model")
    (folder / "bpe.codes").write_text("#version: 0.2\nw 1\n")
    save_loud(folder, folder / "whole.pt", "--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", "bpe.codes")
    return folder


@pytest.fixture(scope="module")
def state(folder) -> dict:
    state = torch.load(folder / "whole.pt")
    state["cfg"]["model"].bpe_codes = state["cfg"]["bpe"]["bpe_codes"] = str(folder / "bpe.codes")
    torch.save(state, folder / "whole.pt")
    for read in readers(folder / "whole.pt").values():
        read()  # so that native code is loaded before anything is watched
    return state


@pytest.fixture(scope="module")
def shuffled(state) -> list[Mutation]:
    """All other changes and as many of options as there is room for."""
    draw, others, all_options = random.Random(1), list(other_changes(state)), list(changed_options(state))
    chosen = others + draw.sample(all_options, CHUNK * CHUNKS["pt"] - len(others))
    draw.shuffle(chosen)
    return chosen


@pytest.fixture(scope="module")
def released(folder, state) -> dict:
    """The same model, released."""
    write_released(state, folder / "model.safetensors", ("src", "tgt"))
    for name, read in readers(folder / "model.safetensors").items():
        if name != TRAININGS:
            read()
    return released_state(folder)


def readers(path: Path) -> dict[str, Callable]:
    """The ways by which a checkpoint comes in."""

    def translate():
        hub = EATransformerModel.from_pretrained(path.parent, path.name, ".", source_lang="src", target_lang="tgt")
        hub.translate(SENTENCE, beam=2, max_len_b=3)

    def describe():
        checkpoint = Checkpoint.read(path)
        return f"{checkpoint} {checkpoint.averaged} {checkpoint.epochs} {checkpoint.seconds:.1f} " + str(
            [checkpoint.options(group) for group in ("task", "checkpoint")]
        )

    return {
        "from_pretrained": translate,
        "fairseq-generate": partial(
            checkpoint_utils.load_model_ensemble_and_task, [str(path)], {"data": str(path.parent)}
        ),
        "a training": partial(checkpoint_utils.load_checkpoint_to_cpu, str(path)),
        TRAININGS: describe,
    }


def flaws(mutation: Mutation, state: dict, path: Path, output: Callable[[], str], secret: str) -> list[str]:
    """What is wrong with how a changed checkpoint is met."""
    mutation.write(state, path)
    found = []
    for reader, read in readers(path).items():
        with watching(path.parent) as seen:
            said = ""
            try:
                read()
            except UserError as error:
                said = str(error)
                if len(said) > 700 or not said.isprintable() or path.name not in said:
                    found.append(f"no sentence: {said!r:.300}")
            except Exception as error:
                found.append(f"{type(error).__name__}: {error!s:.200}")
        if secret in said + output():
            found.append("told the secret")
        found += seen
        found = [flaw if flaw.startswith(mutation.name) else f"{mutation.name}, {reader}: {flaw}" for flaw in found]
    return found


@pytest.fixture(scope="module")
def attacks(state, shuffled, released) -> dict[str, tuple[dict, list[Mutation]]]:
    """What is changed, and its changes, by the ending of the file."""
    changes = list(released_changes(released))
    random.Random(1).shuffle(changes)
    return {"pt": (state, shuffled), "safetensors": (released, changes)}


@pytest.mark.parametrize(
    ("ending", "chunk"),
    [
        pytest.param(ending, chunk, marks=pytest.mark.slow if chunk else ())
        for ending, count in CHUNKS.items()
        for chunk in range(count)
    ],
)
def test_no_change_of_a_checkpoint_does_harm(ending, chunk, attacks, folder, tmp_path, monkeypatch, capfd, caplog):
    secret = f"sesame-{random.random()}"
    monkeypatch.setenv(SECRET, secret)
    monkeypatch.chdir(tmp_path)

    def output() -> str:
        return "".join(capfd.readouterr()) + caplog.text

    whole, changes = attacks[ending]
    changed = folder / f"changed.{ending}"
    chosen = changes[chunk :: CHUNKS[ending]]
    found = [flaw for mutation in chosen for flaw in flaws(mutation, whole, changed, output, secret)]
    assert not found, "\n".join(found)


def test_the_watch_sees_what_it_is_for(tmp_path):
    """Else the test above could not fail."""
    with watching(tmp_path) as seen:
        eval("__import__('sys').audit('hostile.ran')")
        Path("/etc/passwd").open().close()
        (tmp_path / "a file").write_text("text")
    assert [event.split()[0] for event in seen] == ["hostile.ran", "open"]


def foreign_model(state: dict) -> None:
    vars(state["cfg"]["model"]).update(_name="fconv", arch="fconv", encoder_layers=TEXTS["a call that goes on"])


def foreign_subwords(state: dict) -> None:
    state["cfg"]["bpe"] = {"_name": "gpt2", "gpt2_encoder_json": TEXTS["an address"]}


def deep_and_wide(state: dict) -> None:
    vars(state["cfg"]["model"]).update(encoder_layers=1000, encoder_ffn_embed_dim=60_000)


def overlapping(state: dict) -> None:
    numbers = torch.zeros(5_200)
    state["model"] |= {f"encoder.x{start}": numbers[start : start + 5_000] for start in range(200)}


SENTENCES = {
    "its options describe a larger model than its": deep_and_wide,
    "its parameters overlap, and claim more numbers than it holds": overlapping,
    "model.adaptive_softmax_cutoff is": set_option("model", "adaptive_softmax_cutoff", TEXTS["a call"]),
    "model.arch is 'fconv', and must be an architecture of": foreign_model,
    "task.data is '${oc.env:HOSTILE_SECRET}', which is no plain": set_option("task", "data", TEXTS["an interpolation"]),
    "bpe._name is 'gpt2', and must be one of byte_bpe,": foreign_subwords,
    "model.encoder_layers is 9000, and must be a whole number from 0 to 1,000": set_option(
        "model", "encoder_layers", 9000
    ),
    "model.encoder_embed_dim is '16', and must be a whole number": set_option("model", "encoder_embed_dim", "16"),
    "model.decoder_normalize_before is None, and must be true": set_option("model", "decoder_normalize_before", None),
    "model.quant_noise_scalar is 0.5, and must be 0 without a GPU": set_option("model", "quant_noise_scalar", 0.5),
}


@pytest.mark.parametrize(("sentence", "change"), SENTENCES.items(), ids=SENTENCES)
def test_the_sentence_names_the_file_and_the_option(sentence, change, state, folder):
    Mutation("", change).write(state, folder / "changed.pt")
    for name, read in readers(folder / "changed.pt").items():
        if name == "a training" and "plain" not in sentence and "overlap" not in sentence:
            continue  # takes no options from a checkpoint
        if name == TRAININGS and "larger" in sentence:
            continue  # builds no model
        with pytest.raises(UserError) as refusal:
            read()
        assert f"changed.pt is refused: {sentence}" in str(refusal.value)


@pytest.mark.parametrize(
    ("file", "paths", "options"),
    [
        ("model-shard0.pt", ["model.pt"], {}),
        ("model-a.pt", ["model.pt"], {"suffix": "-a"}),
        ("model_part1.pt", ["model.pt"], {"num_shards": 2, "strict": False}),
        ("model.pt", ["model.pt", "missing.pt"], {}),
    ],
)
def test_a_part_is_checked_under_whatever_name_fairseq_finds_it(file, paths, options, state, tmp_path):
    change = set_option("model", "encoder_xformers_att_config", TEXTS["a call"])
    Mutation("", change).write(state, tmp_path / file)
    with watching(tmp_path) as seen, pytest.raises(UserError, match=f"{file} is refused: .*xformers_att_config"):
        checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / path) for path in paths], **options)
    assert not seen


@pytest.mark.parametrize("flag", ["--path", "--finetune-from-model", "--restore-file"])
def test_fairseqs_commands_end_with_the_sentence(flag, state, folder, home):
    Mutation("", SENTENCES["task.data is '${oc.env:HOSTILE_SECRET}', which is no plain"]).write(
        state, home / "changed.pt"
    )
    command = train_command("new", 1, flag, home / "changed.pt")
    if flag == "--path":
        command = generate_command(flag, home / "changed.pt")
    result = run_forked(*command, cwd=home, **{SECRET: "sesame"})
    assert result.returncode == 1 and "sesame" not in result.stdout + result.stderr
    assert result.stderr.splitlines()[-1].endswith("task.data is '${oc.env:HOSTILE_SECRET}', which is no plain text.")


@pytest.mark.parametrize(("data", "save_dir"), [("model/../../../etc", "checkpoints"), ("/etc", "/" + "a/" * 30)])
def test_data_that_a_stranger_names_is_not_taken_from_anywhere(state, folder, data, save_dir):
    changed = copy.deepcopy(state)
    changed["cfg"]["task"]["data"], changed["cfg"]["checkpoint"]["save_dir"] = data, save_dir
    torch.save(changed, folder / "changed.pt")
    with pytest.raises(UserError, match=f"{data!r}, which the model was trained on, is neither next to it"):
        recorded_data(folder / "changed.pt", changed)


def test_a_subword_model_that_lies_beside_takes_no_place_of_the_one_that_is_given(state, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    torch.save(state, tmp_path / "model/whole.pt")
    (tmp_path / "model/bpecodes").symlink_to("/etc/passwd")
    given = {"source_lang": "src", "target_lang": "tgt", "bpe": "subword_nmt"}
    with watching(tmp_path) as seen:
        with pytest.raises(UserError, match="not next to it"):
            EATransformerModel.from_pretrained(tmp_path / "model", "whole.pt", **given)
        given["bpe_codes"] = tmp_path / "model/bpe.codes"
        EATransformerModel.from_pretrained(tmp_path / "model", "whole.pt", **given)
        given["bpe_codes"].write_text("#version: 0.2\nthese are no merges\n")
        with pytest.raises(UserError, match=r"line 2 of .*bpe.codes is not a merge of BPE"):
            EATransformerModel.from_pretrained(tmp_path / "model", "whole.pt", **given)
    assert not seen


@pytest.mark.parametrize("of_old", [False, True])
def test_the_whole_checkpoint_is_used(of_old, state, folder):
    change = as_of_old("arch", "ea_transformer") if of_old else lambda state: None
    Mutation("none", change).write(state, folder / "changed.pt")
    with watching(folder) as seen:
        for read in readers(folder / "changed.pt").values():
            read()
    assert not seen


def test_the_whole_released_model_is_used(released, folder):
    path = folder / "changed.safetensors"
    Mutation("none", lambda state: None, save_released).write(released, path)
    with watching(folder) as seen:
        for name, read in readers(path).items():
            if name != TRAININGS:
                read()
        with pytest.raises(UserError, match="is not a checkpoint of a training"):
            readers(path)[TRAININGS]()
    assert not seen
