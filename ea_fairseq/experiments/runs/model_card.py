"""The card of a released model: what it is, how it was made, what it scores."""

from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.experiments.tables import Code, Table

CARD = "README.md"
ELSEWHERE = "The model itself is not published, because its data belongs to others."


def card(name: str, results: Results, size: int, checksum: str, about: str, is_here: bool) -> str:
    """Markdown.

    Args:
        results: of the model as it is released.
        size: of its file, in bytes.
        checksum: SHA-256 of that file.
        about: sections on the data, the use, the limits and the license, in Markdown.
        is_here: whether the model lies beside its card.
    """
    dataset, search = results.dataset, results.search
    hours = results.seconds / 3600
    facts = {
        "architecture": f"`{results.arch}`, {results.parameters:,} parameters without embeddings",
        "translates": f"{dataset.source_lang} to {dataset.target_lang}",
        "file": f"`model.pt`, float16, without the optimizer, {size / 1e6:.1f} MB, SHA-256 `{checksum}`",
        "recipe": f"`{results.recipe}`, seed {results.seed}",
        "training": results.length,
        "cost": f"{hours:.1f} hours on {results.training_device}",
        "checkpoints": " + ".join(results.checkpoints),
        "commit": f"`{results.commit}`",
        "versions": ", ".join(f"{tool} {number}" for tool, number in results.versions.items()),
    }
    rows = [f"| {fact} | {value} |" for fact, value in facts.items()]
    scores = [[name, f"{score.score:.2f}", Code(score.signature)] for name, score in results.scores.items()]
    searched = f"beam {search['beam']}, length penalty {search['lenpen']:g}"
    translate = f"bash scripts/translate.sh checkpoints/{name} < in.txt > out.txt"
    here = ["```bash", translate, "```"] if is_here else [ELSEWHERE]
    return "\n".join(
        [
            f"# {name}",
            "",
            "| | |",
            "| --- | --- |",
            *rows,
            "",
            *here,
            "",
            about.strip(),
            "",
            "## Scores",
            "",
            f"Of this file on {dataset.subset} of {dataset.name}, {searched}:",
            "",
            Table(["score", "points", "signature"], scores, []).markdown(),
            "## Made by",
            "",
            "```bash",
            *results.commands,
            "```",
            "",
        ]
    )
