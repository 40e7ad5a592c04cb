"""Interactive learning curves: values under the mouse, models to hide and show, a logarithmic axis, wall-clock time."""

import html
from collections.abc import Iterable

import plotly.graph_objects as go
from plotly.io import to_html
from plotly.offline import get_plotlyjs

from ea_fairseq.experiments.figures import looks
from ea_fairseq.experiments.reports.comparison import Comparison
from ea_fairseq.experiments.reports.learning_curves import CURVES, Band, bands_by_axis, label_of, range_of
from ea_fairseq.experiments.reports.plots import shown_models

DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
HEIGHT = 420  # pixels
DIGITS = 3
CONFIG = {"displayModeBar": False, "responsive": True}  # Plotly's own buttons would share curves on its server


def library() -> str:
    """Plotly's script, which a page needs once before its curves."""
    return f"<script>{get_plotlyjs()}</script>"


def all_interactive_curves(comparison: Comparison) -> dict[str, str]:
    """HTML of all curves that :mod:`plots` draws, by the names of its files."""
    found: dict[str, str] = {}
    for dataset in comparison.datasets:
        models = shown_models(comparison, dataset)
        for name in CURVES:
            if drawn := interactive_curves(comparison, dataset, models, name, f"curves-{len(found) + 1}"):
                found[f"{dataset}-{name}"] = drawn
    return found


def interactive_curves(comparison: Comparison, dataset: str, models: list[str], name: str, place: str) -> str | None:
    """HTML of what :func:`learning_curves` draws; None if there is nothing to draw.

    Args:
        place: name of the element, unique in the page.
    """
    drawn = bands_by_axis(comparison, dataset, models, name)
    (updates, by_updates), (clock, by_clock) = drawn.items()
    if not by_updates:
        return None
    style = looks(models)
    figure = go.Figure()
    for model, line in by_updates.items():
        add_band(figure, line, model, style[model])
    low, high = range_of(list(by_updates.values()))
    label = label_of(comparison, dataset, name)
    figure.update_layout(
        template="simple_white",
        height=HEIGHT,
        margin={"l": 60, "r": 10, "t": 40, "b": 60},
        hovermode="x unified",
        hoverlabel={"namelength": -1},
        legend={"orientation": "h", "yanchor": "top", "y": -0.22},
        xaxis={"title": {"text": updates, "standoff": 5}, "rangemode": "tozero", "showgrid": True},
        yaxis={"title": label, "range": [low, high], "showgrid": True, "hoverformat": f".{DIGITS}f"},
        updatemenus=[
            buttons(
                0,
                updates=("update", *along(by_updates.values(), updates)),
                clock=("update", *along(by_clock.values(), clock)),
            ),
            buttons(
                1,
                linear=("relayout", {"yaxis.type": "linear", "yaxis.autorange": False, "yaxis.range": [low, high]}),
                log=("relayout", {"yaxis.type": "log", "yaxis.autorange": True}),
            ),
        ],
    )
    return to_html(figure, CONFIG, include_plotlyjs=False, full_html=False, div_id=place)


def add_band(figure: go.Figure, line: Band, model: str, style: dict[str, str]) -> None:
    """Adds the mean of the seeds, and a band from the lowest to the highest, which is hidden and shown with it."""
    text = html.escape(model)
    shared = {"legendgroup": text, "name": text}
    figure.add_scatter(
        x=list(line.x),
        y=list(line.middle),
        mode="lines",
        line={"color": style["color"], "dash": DASHES[style["linestyle"]]},
        **shared,
    )
    x, y = edge(line)
    figure.add_scatter(
        x=x,
        y=y,
        fill="toself",
        fillcolor=style["color"],
        opacity=0.2,
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        showlegend=False,
        **shared,
    )


def edge(line: Band) -> tuple[list[float], list[float]]:
    """The edge of a band: along the highest values, then back along the lowest."""
    return [*line.x, *line.x[::-1]], [*line.high, *line.low[::-1]]


def along(lines: Iterable[Band], title: str) -> tuple[dict, dict]:
    """What Plotly changes to show curves and their bands along another axis."""
    x, y = zip(*[place for line in lines for place in ((list(line.x), list(line.middle)), edge(line))], strict=True)
    return {"x": x, "y": y}, {"xaxis.title.text": title, "xaxis.autorange": True}


def buttons(side: int, **choices: tuple) -> dict:
    """A row of buttons, at the left (0) or the right (1); each choice is a method of Plotly and its arguments."""
    return {
        "type": "buttons",
        "direction": "right",
        "x": side,
        "xanchor": ("left", "right")[side],
        "y": 1.02,
        "yanchor": "bottom",
        "buttons": [{"label": label, "method": call[0], "args": list(call[1:])} for label, call in choices.items()],
    }
