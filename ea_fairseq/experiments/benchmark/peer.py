"""CTranslate2 with the plain model of a case, converted as its users do, and the same sentences, search and threads.

CTranslate2 can use threads in several ways; the fastest one for the case is chosen.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ea_fairseq.checkpoint.file import read_checkpoint
from ea_fairseq.checkpoint.released import is_released
from ea_fairseq.experiments.benchmark.cases import Case, Settings, Variant
from ea_fairseq.experiments.benchmark.translation import LONGEST, Translation
from ea_fairseq.experiments.benchmark.workloads import Generation
from ea_fairseq.plain.model_folder import usual_checkpoint
from ea_fairseq.plain.project import PACKAGE

if TYPE_CHECKING:
    from ctranslate2 import Translator

LANGUAGES = ("source", "target")  # of untrained models
Sentences = list[list[str]]  # tokens without the end of the sentence


class Engine:
    """CTranslate2 with one model.

    Args:
        checkpoint: of fairseq's Transformer, or a released model.
        data: folder of the dictionaries.
        languages: source and target.
        compute_type: one of CTranslate2's.
        beam: width of the beam.
    """

    def __init__(self, checkpoint: Path, data: Path, languages: tuple[str, str], compute_type: str, beam: int):
        from ctranslate2 import Translator
        from ctranslate2.converters import FairseqConverter

        threads = torch.get_num_threads()
        with TemporaryDirectory() as folder:
            if is_released(checkpoint):  # CTranslate2 reads only fairseq's checkpoints
                state, checkpoint = read_checkpoint(checkpoint), Path(folder, "model.pt")
                torch.save({"args": state["cfg"]["model"], "model": state["model"]}, checkpoint)
            converter = FairseqConverter(str(checkpoint), str(data), *languages, user_dir=str(PACKAGE))
            model = converter.convert(f"{folder}/model")
            self.translators = [
                Translator(model, compute_type=compute_type, inter_threads=workers, intra_threads=each)
                for workers, each in sorted({(1, 1), (1, threads), (threads, 1)})
            ]
        self.beam = beam

    def choose(self, sentences: Sentences, **limits: int) -> None:
        """Chooses the translator that is fastest with these sentences, after a warm-up."""

        def seconds(translator: "Translator") -> float:
            self.search(translator, sentences, **limits)
            begin = time.perf_counter()
            self.search(translator, sentences, **limits)
            return time.perf_counter() - begin

        self.translators = [min(self.translators, key=seconds)]

    def __call__(self, sentences: Sentences, **limits: int) -> Sentences:
        """Returns the best hypothesis of each sentence of a batch."""
        return self.search(self.translators[0], sentences, **limits)

    def search(self, translator: "Translator", sentences: Sentences, **limits: int) -> Sentences:
        """Returns the best hypotheses by one of the translators, whose workers share the batch."""
        most = -(-len(sentences) // translator.num_translators)
        found = translator.translate_batch(sentences, max_batch_size=most, beam_size=self.beam, **limits)
        return [result.hypotheses[0] for result in found]


class PeerGeneration(Generation):
    """The search for hypotheses of one length, with the random weights of fairseq's Transformer in this case."""

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        super().__init__(case, variant, settings)
        self.sources = [tokens_of(self.dictionary, source) for source in self.batch["net_input"]["src_tokens"]]
        self.limits = dict.fromkeys(("min_decoding_length", "max_decoding_length"), case.length - 1)
        with TemporaryDirectory() as folder:
            data = Path(folder)
            torch.save({"args": self.options, "model": self.model.state_dict()}, data / "model.pt")
            for language in LANGUAGES:
                self.dictionary.save(str(data / f"dict.{language}.txt"))
            self.engine = Engine(data / "model.pt", data, LANGUAGES, variant.peer, case.beam)
        self.engine.choose(self.sources, **self.limits)

    def step(self) -> None:
        made = sum(len(hypothesis) + 1 for hypothesis in self.engine(self.sources, **self.limits))
        assert made == self.words, f"{made} instead of {self.words} words"


class PeerTranslation(Translation):
    """The translation of a text by the plain model; hypotheses may be as long as in fairseq."""

    def __init__(self, case: Case, variant: Variant, settings: Settings):
        super().__init__(case, variant, settings)
        hub, folder = self.hub, Path(variant.model)
        checkpoint = folder / usual_checkpoint(folder)
        self.engine = Engine(checkpoint, Path(hub.task.cfg.data), hub.languages, variant.peer, case.beam)
        self.prepared = [
            (
                [tokens_of(hub.src_dict, sentence) for sentence in batch],
                int(LONGEST["max_len_a"] * max(map(len, batch)) + LONGEST["max_len_b"]),
            )
            for batch in self.batches
        ]
        sentences, longest = self.prepared[len(self.prepared) // 2]
        self.engine.choose(sentences, max_decoding_length=longest)

    def step(self) -> None:
        for sentences, longest in self.prepared:
            self.engine(sentences, max_decoding_length=longest)


def tokens_of(dictionary: Dictionary, tokens: Tensor) -> list[str]:
    """Returns the tokens of a sentence without padding and end of sentence, as CTranslate2 reads them."""
    return [dictionary[token] for token in tokens.tolist() if token not in (dictionary.pad(), dictionary.eos())]
