"""What evaluate.sh must know of a folder of binarised data: for which task it is, and its checksums."""

from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.binarised import Binarised
from ea_fairseq.experiments.runs.data_bin import DataBin
from ea_fairseq.experiments.runs.encoder_data import SentenceData, TextData
from ea_fairseq.experiments.runs.series_data import SeriesData
from ea_fairseq.experiments.runs.training_run import require_words
from ea_fairseq.plain.commands import Parser, run


def read_data(folder: Path) -> Binarised:
    """Binarised data of whichever task; folders that are none of the others' are taken for translation.

    Raises:
        UserError: naming the folder or file that is not there or is something else.
    """
    if (folder / "input0").is_dir():
        return SentenceData(folder)
    if (folder / "dict.txt").is_file():
        return TextData(folder)
    if folder.is_dir() and SeriesData.is_in(folder):
        return SeriesData(folder)
    return DataBin.read(folder)


def main() -> None:
    """Prints the task, the checksums, and what fairseq-generate must be told of the data, a line each."""
    parser = Parser("data_facts.py", "Describes binarised data for scripts/evaluate.sh.", "see scripts/evaluate.sh")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--subset", required=True)
    parser.add_argument("--run", type=Path, required=True, help="folder of a training that must be on such data")
    parser.add_argument("--compound-split", action="store_true")
    args = parser.parse_args()
    data = read_data(args.folder)
    if args.compound_split and not isinstance(data, DataBin):
        raise UserError(f"--compound-split is for translations, and {data.folder} is for --task {data.task}.")
    if args.compound_split:
        data.require_compounds()
    dataset = data.dataset(args.subset)
    require_words(args.run, data.folder)
    print(data.task, dataset.manifest, dataset.checksum, *data.facts, sep="\n")


if __name__ == "__main__":
    run(main)
