#!/usr/bin/env python3
"""Draws a run's trace (train --trace): pipeline, stage times over updates, loss and accuracy.

usage: plot_trace.py RUN.h5 [--out FILE.png] [--html FILE.html] [--update N] [--updates COUNT]

Needs h5py and matplotlib (Debian: python3-h5py python3-matplotlib). The timeline shows COUNT updates
from update N on (default: the middle of the last epoch); without --trace-events it shows shares of
time instead. The page has the picture in it, with tables, and loads nothing."""

import argparse
import base64
import html
import io
import json
import os
import sys

import h5py
import numpy

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.patches import Patch

WORK = {"forward": "#4c78a8", "recompute": "#9ecae9", "backward": "#f58518",
        "backward_input": "#f58518", "backward_weight": "#ffbf79", "update": "#54a24b"}
WAITS = {"wait_activation": "#d9d9d9", "wait_gradient": "#bdbdbd", "wait_sum": "#c5b0d5",
         "wait_send": "#f7b6d2"}
PARTS = [("forward_s", "forward", WORK["forward"]), ("backward_s", "backward", WORK["backward"]),
         ("update_s", "update", WORK["update"]),
         ("wait_activation_s", "waits for activation", WAITS["wait_activation"]),
         ("wait_gradient_s", "waits for gradient", WAITS["wait_gradient"]),
         ("wait_sum_s", "waits for sum", WAITS["wait_sum"]),
         ("wait_send_s", "waits for send", WAITS["wait_send"])]
STAGES = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d"]


class Trace:
    """The tables of a file, as arrays."""

    def __init__(self, path):
        with h5py.File(path, "r") as file:
            if file.attrs.get("format") != "dynpipe trace":
                raise SystemExit(f"plot_trace.py: {path}: is not a trace of dynpipe")
            self.path = path
            self.meta = {name: value for name, value in file["meta"].attrs.items()}
            self.kinds = [text.decode() for text in file["meta/event_kinds"][:]]
            self.model = json.loads(file["meta/model"][()])
            self.layers = file["meta/layers"][:]
            self.ranks = file["meta/ranks"][:]
            self.plans = file["plans"][:]
            self.updates = file["updates"][:]
            self.stats = file["stage_stats"][:]
            self.evals = file["evals"][:]
            self.events = file["events"][:] if "events" in file else None
        self.stages = sorted(set(self.stats["stage"].tolist()))
        self.second = "virtual s" if self.meta.get("clock") == "virtual" else "s"


def chosen_updates(trace, first, count):
    """The updates that the timeline shows: within the last epoch, from its middle on."""
    numbers = trace.updates["update"]
    if first is None:
        last = trace.updates[trace.updates["epoch"] == trace.updates["epoch"][-1]]["update"]
        first = int(last[len(last) // 2])
    return first, min(first + count - 1, int(numbers[-1]))


def draw_timeline(axes, trace, first, last):
    events = trace.events
    chosen = events[(events["update"] >= first) & (events["update"] <= last)]
    if len(chosen) == 0:
        axes.text(0.5, 0.5, f"no events of updates {first} to {last}", ha="center")
        return
    began, ended = chosen["start_s"].min(), chosen["end_s"].max()
    chosen = events[(events["end_s"] > began) & (events["start_s"] < ended)]
    scale = 1e3
    order = sorted(set(zip(trace.stats["stage"].tolist(), trace.stats["rank"].tolist())))
    rows = {rank: row for row, (_, rank) in enumerate(order)}
    colours = {**WORK, **WAITS}
    for number, kind in enumerate(trace.kinds):
        for rank, row in rows.items():
            of = chosen[(chosen["kind"] == number) & (chosen["rank"] == rank)]
            if len(of) == 0:
                continue
            bars = [(scale * (e["start_s"] - began), scale * (e["end_s"] - e["start_s"])) for e in of]
            waits = kind.startswith("wait")
            axes.broken_barh(bars, (row - (0.18 if waits else 0.4), 0.36 if waits else 0.8),
                             facecolors=colours.get(kind, "black"), edgecolor="white", linewidth=0.3)
    width = scale * (ended - began)
    for event in chosen:
        kind = trace.kinds[event["kind"]]
        length = scale * (event["end_s"] - event["start_s"])
        inside = event["start_s"] >= began and event["end_s"] <= ended
        if kind in ("forward", "backward") and length > width / 60 and inside:
            axes.text(scale * (event["start_s"] - began) + length / 2, rows[event["rank"]],
                      str(event["index"]), ha="center", va="center", fontsize=6, color="white")
    axes.set_yticks(range(len(order)))
    axes.set_yticklabels([f"stage {stage}, rank {rank}" for stage, rank in order])
    axes.invert_yaxis()
    axes.set_xlim(0, width)
    axes.set_xlabel(f"{'virtual ' if trace.second != 's' else ''}ms; numbers are microbatches")
    axes.set_title(f"Pipeline, updates {first} to {last}", loc="left")
    seen = [kind for kind in colours if kind in trace.kinds
            and (chosen["kind"] == trace.kinds.index(kind)).any()]
    axes.legend(handles=[Patch(color=colours[kind], label=kind.replace("_", " ")) for kind in seen],
                ncol=len(seen), fontsize=7, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)


def stage_shares(trace):
    """By stage: share of training time of each part, and of what is none of them."""
    rows = []
    for stage in trace.stages:
        of = trace.stats[trace.stats["stage"] == stage]
        total = max(of["total_s"].sum(), 1e-12)
        shares = [of[column].sum() / total for column, _, _ in PARTS]
        rows.append(shares + [max(0.0, 1 - sum(shares))])
    return numpy.array(rows).reshape(len(trace.stages), len(PARTS) + 1)


def draw_shares(axes, trace):
    shares = 100 * stage_shares(trace)
    left = numpy.zeros(len(trace.stages))
    for column, (_, label, colour) in enumerate(PARTS + [("", "rest", "#eeeeee")]):
        axes.barh(range(len(trace.stages)), shares[:, column], left=left, color=colour, label=label)
        left += shares[:, column]
    axes.set_yticks(range(len(trace.stages)))
    axes.set_yticklabels([f"stage {stage}" for stage in trace.stages])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of training time")
    axes.set_title("Where each stage's time went", loc="left")
    axes.legend(ncol=4, fontsize=7, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)


def draw_stage_times(axes, trace):
    """Work an update by stage, its busiest replica, as a running median."""
    for place, stage in enumerate(trace.stages):
        of = trace.stats[trace.stats["stage"] == stage]
        work = {}
        for row in of:
            busy = 1e3 * (row["forward_s"] + row["backward_s"] + row["update_s"])
            update = int(row["update"])
            work[update] = max(work.get(update, 0.0), busy)
        updates = numpy.array(sorted(work))
        values = numpy.array([work[update] for update in updates])
        reach = max(1, len(values) // 200)
        smooth = numpy.array([numpy.median(values[max(0, i - reach):i + reach + 1])
                              for i in range(len(values))])
        colour = STAGES[place % len(STAGES)]
        axes.plot(updates, values, color=colour, alpha=0.2, linewidth=0.6)
        axes.plot(updates, smooth, color=colour, label=f"stage {stage}")
        axes.set_ylim(0, max(axes.get_ylim()[1], 1.3 * float(numpy.quantile(values, 0.99))))
    for row in trace.plans[1:]:
        axes.axvline(row["update"], color="black", linestyle="--", linewidth=0.8)
        axes.text(row["update"], axes.get_ylim()[1], " new plan", va="top", fontsize=7)
    axes.set_xlabel("update")
    axes.set_ylabel("ms of work")
    axes.set_title("Stage times over updates", loc="left")
    axes.legend(fontsize=7, ncol=4, loc="lower left")


def draw_learning(axes, trace):
    updates, evals = trace.updates, trace.evals
    axes.plot(updates["time_s"], updates["loss"], color="#bdbdbd", linewidth=0.6,
              label="loss of an update")
    if len(evals):
        axes.plot(evals["time_s"], evals["train_loss"], "o-", color="#4c78a8", markersize=3,
                  label="train loss")
        axes.plot(evals["time_s"], evals["test_loss"], "s-", color="#f58518", markersize=3,
                  label="test loss")
    top = float(numpy.quantile(updates["loss"], 0.99)) if len(updates) else 1.0
    axes.set_ylim(0, 1.2 * max(top, 1e-6))
    axes.set_xlabel(f"{trace.second} since training began")
    axes.set_ylabel("loss")
    axes.set_title("Loss and accuracy", loc="left")
    right = axes.twinx()
    if len(evals):
        right.plot(evals["time_s"], 100 * evals["test_accuracy"], "^-", color="#54a24b",
                   markersize=4, label="test accuracy")
    right.set_ylim(0, 100)
    right.set_ylabel("%")
    lines = axes.get_legend_handles_labels()
    more = right.get_legend_handles_labels()
    axes.legend(lines[0] + more[0], lines[1] + more[1], ncol=4, fontsize=7, loc="lower right",
                bbox_to_anchor=(1, 1), frameon=False)


def picture(trace, first, count):
    ranks = len(trace.ranks)
    heights = [1.2 + 0.35 * max(ranks, 2), 2.6, 2.6]
    figure, axes = pyplot.subplots(3, 1, figsize=(11, 2 + sum(heights)),
                                   gridspec_kw={"height_ratios": heights})
    name = trace.model.get("name", "")
    figure.suptitle(f"{os.path.basename(trace.path)}: {name}, {ranks} ranks, "
                    f"{len(trace.updates)} updates", fontsize=12)
    if trace.events is not None and len(trace.events):
        draw_timeline(axes[0], trace, *chosen_updates(trace, first, count))
    else:
        draw_shares(axes[0], trace)
    draw_stage_times(axes[1], trace)
    draw_learning(axes[2], trace)
    figure.tight_layout(h_pad=2.0)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    pyplot.close(figure)
    return buffer.getvalue()


def table(head, rows):
    cells = lambda row, tag: "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><tr>{cells(head, 'th')}</tr>{body}</table>"


def page(trace, png):
    shares = 100 * stage_shares(trace)
    names = [label for _, label, _ in PARTS] + ["rest"]
    parts = [
        f"<h1>{html.escape(os.path.basename(trace.path))}</h1>",
        f'<img alt="timeline, stage times, loss" src="data:image/png;base64,'
        f'{base64.b64encode(png).decode()}">',
        "<h2>Run</h2>", table(["what", "value"], sorted(trace.meta.items())),
        "<h2>Where each stage's time went, %</h2>",
        table(["stage"] + names, [[stage] + [f"{x:.1f}" for x in row]
                                  for stage, row in zip(trace.stages, shares)]),
        "<h2>Epochs</h2>",
        table(["epoch", "update", f"time, {trace.second}", "train loss", "test loss",
               "test accuracy, %"],
              [[e["epoch"], e["update"], f"{e['time_s']:.2f}", f"{e['train_loss']:.4f}",
                f"{e['test_loss']:.4f}", f"{100 * e['test_accuracy']:.2f}"] for e in trace.evals]),
        "<h2>Plans</h2>",
    ]
    for row in trace.plans:
        plan = json.dumps(json.loads(row["plan"]), indent=1)
        parts.append(f"<h3>after update {row['update']}</h3><pre>{html.escape(plan)}</pre>")
    parts += ["<h2>Ranks</h2>",
              table(["rank", "host", "threads"],
                    [[r["rank"], r["host"].decode(), r["threads"]] for r in trace.ranks]),
              "<h2>Layers</h2>",
              table(["layer", "type", "FLOPs forward a sample", "parameters"],
                    [[l["name"].decode(), l["type"].decode(), l["forward_flops"], l["parameters"]]
                     for l in trace.layers])]
    style = ("body{font:14px sans-serif;margin:2em;max-width:1300px}img{max-width:100%}"
             "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:2px 8px;"
             "text-align:right}th{background:#eee}")
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f"<title>{html.escape(os.path.basename(trace.path))}</title><style>{style}</style>"
            f"</head><body>{''.join(parts)}</body></html>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("trace", metavar="RUN.h5")
    parser.add_argument("--out", metavar="FILE.png", help="the picture (default: RUN.png)")
    parser.add_argument("--html", metavar="FILE.html", help="a page with picture and tables")
    parser.add_argument("--update", type=int, metavar="N", help="the timeline begins with it")
    parser.add_argument("--updates", type=int, default=4, metavar="COUNT", help="that it shows")
    options = parser.parse_args()
    try:
        trace = Trace(options.trace)
    except OSError as error:
        raise SystemExit(f"plot_trace.py: {options.trace}: {error}") from None
    if len(trace.updates) == 0 or len(trace.stats) == 0:
        raise SystemExit(f"plot_trace.py: {options.trace}: holds no updates")
    png = picture(trace, options.update, options.updates)
    out = options.out or (None if options.html else os.path.splitext(options.trace)[0] + ".png")
    if out:
        with open(out, "wb") as file:
            file.write(png)
        print(f"picture: {out}")
    if options.html:
        with open(options.html, "w", encoding="utf-8") as file:
            file.write(page(trace, png))
        print(f"page: {options.html}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
