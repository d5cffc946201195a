"""The style of all figures: sizes, colours, legends, and the conversion of a figure to SVG."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from workbench.support.messages import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe and Ito's palette, which is distinguishable with every common kind of colour vision.
BLUE, ORANGE, GREEN, VERMILION, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9"
PURPLE = "#CC79A7"
#: An orange that is dark enough for text.
DARK_ORANGE = "#9A6A00"
INK, GREY, FAINT = "#222222", "#8C8C8C", "#D9D9D9"
#: Ink on coloured ground, which is the same on dark pages.
INK_ON_COLOUR = "#1A1A1A"
#: The same colours on dark pages. White is the paper, and stays white as text.
DARK: Final = {
    INK: "#e8e8e8", GREY: "#a0a0a0", FAINT: "#444444", BLUE: "#4aa8e8", GREEN: "#2fc79a",
    VERMILION: "#ff8a3d", DARK_ORANGE: "#f0b040",
}  # fmt: skip
#: The colour of the paper on dark pages.
DARK_PAPER: Final = "#111111"

#: Colours, markers and dashes of series: every series differs by a marker or a hatch as well as by colour.
COLOURS: Final = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, INK, GREY)
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: Final = ("-", "--", ":", "-.")
#: The rim of bars that touch each other.
RIM: Final[Any] = {"edgecolor": "white", "linewidth": 0.6}
#: Hatches of workbench runs, and hatches of published figures, which are lines on white.
HATCHES: Final = ("", "....", "xxx", "oo", "++", "**")
PUBLISHED_HATCHES: Final = ("////", "\\\\\\\\", "||||", "----")

_STYLE: Any = {
    "figure.dpi": 110,
    "savefig.dpi": 150,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
    "svg.hashsalt": "workbench",
}


@contextmanager
def paper_style() -> Iterator[None]:
    """Set the project's style inside the ``with`` block, and restore matplotlib's settings after it."""
    require("matplotlib", "plots")
    import matplotlib as mpl

    # Not rc_context: it would also undo settings made by the import of pyplot, such as the backend.
    before = {key: mpl.rcParams[key] for key in _STYLE}
    mpl.rcParams.update(_STYLE)
    try:
        yield
    finally:
        mpl.rcParams.update(before)


@contextmanager
def drawing(ax: Axes | None, size: tuple[float, float]) -> Iterator[Axes]:
    """Yield ``ax``, or the axes of a new figure of ``size`` inches, to be drawn on in the project's style."""
    with paper_style():
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=size, layout="constrained")[1]
        else:
            # Axes of the caller were made with the caller's settings.
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_axisbelow(True)
            ax.grid(visible=True, axis="both", color=FAINT, linewidth=0.6)
            ax.grid(visible=False, axis="x")
        yield ax


def figure_svg(draw: Callable[[Axes], object], size: tuple[float, float]) -> bytes:
    """Return a figure as SVG that follows the colours of its page, light or dark.

    ``draw`` draws it on axes of ``size`` inches, without a window or pyplot.
    """
    nothing: Any = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = _NUMBER.sub(lambda m: f"{float(m[0]):.2f}", buffer.getvalue())
    text = text[text.index("<svg") :]  # the prologue names an address
    return text.replace("<defs>", f"<style>{_dark_rules()}</style><defs>", 1).encode()


#: Coordinates with more decimal places than a screen shows; small factors keep theirs.
_NUMBER: Final = re.compile(r"(?<=[ \"])-?[1-9]\d*\.\d{3,}")


def _dark_rules() -> str:
    """Return the style rules that give matplotlib's own styles the colours of dark pages."""
    rules = [
        f'[style*="{what}: {light.lower()}"]{{{what}:{dark}!important}}'
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    ]
    rules += [f'{tag}[style*="fill: #ffffff"]{{fill:{DARK_PAPER}!important}}' for tag in ("path", "use")]
    rules.append(f'[style*="stroke: #ffffff"]{{stroke:{DARK_PAPER}!important}}')
    return f"@media(prefers-color-scheme:dark){{{''.join(rules)}}}"


def set_title(ax: Axes, text: str) -> None:
    """Set the title of axes, broken into lines that fit above them, so that neighbours do not overprint."""
    # A bold letter of 11 points is 0.1 inches wide.
    ax.set_title(wrapped(text, max(16, int(_room(ax) / 0.1))))


def _room(ax: Axes) -> float:
    """Return the width in inches for a text above axes, before the layout is made."""
    figure, place = ax.get_figure(), ax.get_subplotspec()
    if figure is None:
        return 6.0
    columns = 1 if place is None else place.get_gridspec().ncols
    # Labels and ticks take more of narrow axes.
    return ax.get_position().width * figure.bbox.width / figure.dpi * (1.1 if columns == 1 else 0.95)


def series(k: int) -> tuple[str, str]:
    """Return colour and marker of the k-th series; the first 64 pairs are distinct.

    >>> series(0), series(8)
    (('#0072B2', 'o'), ('#0072B2', 's'))
    """
    return COLOURS[k % len(COLOURS)], MARKERS[(k + k // len(COLOURS)) % len(MARKERS)]


def say(ax: Axes, text: str) -> Axes:
    """Write a sentence in the middle of axes that have no data to draw."""
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def name_axes(ax: Axes, title: str, x: str = "", y: str = "", *, columns: int = 4) -> None:
    """Set the title and the names of the axes, and put a legend below the title.

    Args:
        ax: The axes.
        title: The title.
        x: The name of the horizontal axis; empty for none.
        y: The name of the vertical axis; empty for none.
        columns: The most columns of the legend; 0 for no legend.
    """
    if x:
        ax.set_xlabel(x)
    if y:
        ax.set_ylabel(y)
    set_title(ax, title)
    if columns:
        legend_above(ax, columns)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Name horizontal bars, the first one at the top."""
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()


def name_columns(ax: Axes, names: Sequence[str]) -> None:
    """Name vertical bars; many names are slanted."""
    slanted: Any = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(names)), names, **(slanted if len(names) > 5 else {}))
    ax.tick_params(axis="x", length=0)


def note(ax: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    """Write a text ``offset`` points from a point; all arguments are those of :meth:`matplotlib.axes.Axes.annotate`."""
    ax.annotate(text, at, xytext=offset, textcoords="offset points", **style)


def whole_ticks(ax: Axes) -> None:
    """Put ticks at whole numbers on the horizontal axis."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def unit_of(microseconds: float) -> tuple[float, str]:
    """Return the scale and the unit in which a time is drawn."""
    return (1000.0, "ms") if microseconds >= 10_000 else (1.0, "µs")


def legend_above(ax: Axes, columns: int = 4) -> None:
    """Put the legend between title and axes, so that bars do not cover it."""
    _, labels = ax.get_legend_handles_labels()
    room = _room(ax)
    columns = next((c for c in range(min(columns, len(labels)), 0, -1) if _width(labels, c) <= room), 1)
    rows = -(-len(labels) // columns)
    spaces: Any = {"borderaxespad": 0.2, "handlelength": 1.6, "columnspacing": 1.4}
    ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=columns, fontsize=8.5, **spaces)
    ax.set_title(ax.get_title(loc="left"), pad=8 + 14 * rows)


def _width(labels: Sequence[str], columns: int) -> float:
    """Return the approximate width in inches of a legend that is filled column by column."""
    rows = -(-len(labels) // columns)
    return sum(0.42 + 0.064 * max(map(len, labels[k : k + rows])) for k in range(0, len(labels), rows))


def wrapped(text: str, width: int = 50) -> str:
    """Return a long text broken into lines that fit under a figure."""
    return "\n".join(textwrap.wrap(text, width))
