"""Plots as SVG. They need matplotlib (``pip install 'kpg[plots]'``)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from _flows import survival
from numpy.typing import NDArray

LINES = ("-", "--", ":", "-.")


def svg_plots() -> Any:
    """``pyplot``, whose files are SVG, and the same for the same figures."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kpg", "font.size": 9})
    from matplotlib import pyplot

    return pyplot


def plot_survival(
    series: Mapping[str, Mapping[str, NDArray[np.float64]]], title: str, path: Path | None
) -> None:
    """A panel for each group of series of latencies in seconds: the share of them above x, both logarithmic.

    Nothing without a ``path``.
    """
    if path is None:
        return
    pyplot = svg_plots()
    figure, panels = pyplot.subplots(
        1, len(series), figsize=(4.2 * len(series), 3.4), sharex=True, sharey=True, squeeze=False
    )
    for panel, (group, lines) in zip(panels[0], series.items(), strict=True):
        for number, (name, latencies) in enumerate(lines.items()):
            points = [(x, share) for x, share in survival(latencies) if share > 0]
            panel.plot(*zip(*points, strict=True), LINES[number // 10 % 4], label=name, linewidth=1.2)
        panel.set(xscale="log", yscale="log", xlabel="latency in seconds", title=group, ylim=(1e-5, 1.2))
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7)
    panels[0][0].set_ylabel("share of requests above")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
