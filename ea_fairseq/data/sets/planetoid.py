"""Citation graphs with Planetoid's public split, and the user's own graphs; every line is checked."""

from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path

from ea_fairseq.data import manifest
from ea_fairseq.data.data_set import DataSet
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.options import Option, folder
from ea_fairseq.data.plan import Plan
from ea_fairseq.errors import UserError

TABLES = ("nodes.tsv", "edges.tsv")
GRAPHS = "read nodes.tsv and edges.tsv in DIR/NAME, or in DIR itself"
NAMES = ("nodes", "edges", "features", "classes", "train", "valid", "test")
COUNTS = {  # Yang, Cohen and Salakhutdinov, ICML 2016; distinct edges without loops
    "cora": dict(zip(NAMES, (2708, 5278, 1433, 7, 140, 500, 1000), strict=True)),
    "citeseer": dict(zip(NAMES, (3327, 4552, 3703, 6, 120, 500, 1000), strict=True)),
}


class Graphs(DataSet):
    """Graphs, by their names."""

    def prepare(self, options: Namespace) -> None:
        """Prepares the data, or prints the plan.

        Raises:
            UserError: naming the option or the file that is missing, or the line that is wrong.
        """
        name, path = options.given
        output = self.output_folder(path, name)
        if options.graphs is None:
            raise UserError("give the folder of the tables with --graphs: no place is known to have them as text.")
        found = next(
            (place for place in (options.graphs / name, options.graphs) if (place / TABLES[0]).is_file()), None
        )
        if found is None:
            raise UserError(f"--graphs: {options.graphs} has no {name}/{TABLES[0]}: put the tables there.")
        for table in TABLES:
            if not (found / table).is_file():
                raise UserError(f"--graphs: {found} has no {table}: put it there.")
        checksums = [sha256(found / table) for table in TABLES]
        plan = Plan()
        plan.add("data-bin", partial(take_graph, name=name, given=found), (name, checksums), ())
        known = replace(self, counts=COUNTS.get(name, {}))
        known.carry_out(plan, output, options, strict=True)


def take_graph(output: Path, *, name: str, given: Path) -> None:
    """Checks, copies and describes a graph in a new folder.

    Args:
        given: the folder of its tables.

    Raises:
        UserError: naming the line that is wrong.
    """
    from ea_fairseq.graphs.description import GraphDescription
    from ea_fairseq.graphs.graph import Graph

    try:
        graph = Graph.read(given)
    except UserError as error:
        raise UserError(f"{error}.") from None
    description = GraphDescription.of(graph)
    output.mkdir()
    for table in TABLES:
        (output / table).write_bytes((given / table).read_bytes())
    sizes = {"nodes": description.nodes, "edges": len(graph.edges)}
    found = {
        "settings": {"dataset": "prepare-planetoid", "name": name},
        "sources": [{"file": table, "sha256": sha256(given / table)} for table in TABLES],
        "splits": {split: {"pairs": len(nodes), "steps": []} for split, nodes in graph.splits.items()},
        "dictionary_sizes": {},
        "graph": {**sizes, "features": description.features, "classes": description.classes},
        "files": {table: f"sha256:{sha256(output / table)}" for table in TABLES},
    }
    manifest.write(output / manifest.MANIFEST, found)


DATA_SET = Graphs(
    name="planetoid",
    summary="Cora and Citeseer, graphs of papers that cite each other, or a graph of your own",
    description="""\
Checks every line of the tables nodes.tsv and edges.tsv of a graph (docs/graphs.md describes them), counts its nodes and
edges, and writes them to OUT_DIR/data-bin for the task node_prediction. cora and citeseer must have the published
counts. If interrupted, run it again to resume.""",
    examples=("--graphs ~/graphs cora data/cora",),
    asks=("NAME", "OUT_DIR"),
    shared={"dry_run"},
    own=(Option("graphs", "DIR", None, GRAPHS, folder),),
)
