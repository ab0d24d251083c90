"""How the analyses of a whole program show themselves in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.advice import Advice
from stepscope.analysis.advice.check import Check
from stepscope.analysis.input import input_words
from stepscope.analysis.input.input_pipeline import InputPipelines
from stepscope.analysis.program.account import Account
from stepscope.analysis.program.retraces import Retraces
from stepscope.metadata import readable
from stepscope.metadata.readable import number, size, time
from stepscope.notebook import markup
from stepscope.notebook.results import view

if TYPE_CHECKING:
    from stepscope.analysis.input.stages import Pipeline

__all__: list[str] = []


@view.register
def _(found: Account) -> str:
    top = max((row.share for row in found.rows), default=0.0) or 1.0
    rows = [
        (
            row.part,
            time(row.ns),
            f"{row.share:.1%}",
            markup.bar(row.share / top),
            f"{row.count:,}" if row.count else "",
            row.mostly,
            row.where,
        )
        for row in found.rows
    ]
    title = f"{found.program}: {time(found.whole_ns)}"
    heads = ("part", "time", "share", "", "how many", "mostly", "at")
    return markup.section(title, markup.table(heads, rows, (1, 2, 4), "rows"))


@view.register
def _(found: Retraces) -> str:
    rows = [
        (
            row.function,
            f"{row.times:,}",
            time(row.lost_ns),
            row.cause,
            row.argument,
            " → ".join(row.values),
            row.where,
            f"{row.nodes:,}",
            size(row.grew_bytes),
            row.advice,
        )
        for row in found.rows
    ]
    title = (
        f"{found.program}: {number(found.traces, 'graph')} of functions traced in "
        f"{time(found.trace_ns)}, {time(found.lost_ns)} of it again"
    )
    heads = (
        "function", "again", "lost", "because of", "argument", "from, to", "called at", "nodes",
        "memory", "what to do",
    )  # fmt: skip
    return markup.section(title, markup.table(heads, rows, (1, 2, 7, 8), "rows"))


@view.register
def _(found: InputPipelines) -> str:
    if not found.pipelines:
        return markup.section("input", markup.facts([("", found.lacking)]))
    return "".join(_pipeline(pipeline) for pipeline in found.pipelines)


def _pipeline(pipeline: Pipeline) -> str:
    rows = [
        (
            stage.stage,
            readable.place(stage.line),
            time(stage.own_ns),
            time(stage.waiting_ns),
            stage.waits_for,
            f"{stage.calls:,}" if stage.calls else "",
            f"{stage.buffered:.1f}" if stage.buffered >= 0 else "",
            f"{stage.buffer:,}" if stage.buffer else "",
        )
        for stage in pipeline.stages
    ]
    heads = ("stage", "made at", "own", "waiting", "for", "calls", "buffered", "of")
    title, *lines = input_words.heading(pipeline)
    helps = [
        (
            input_words.change(pipeline, change),
            time(change.saves_ns),
            time(change.low_ns),
            time(change.high_ns),
            input_words.condition(change),
        )
        for change in pipeline.changes
    ]
    changes = ("what would help", "saves", "least", "most", "if")
    said = [("", line) for line in (*lines, pipeline.lacking) if line]
    parts = [markup.facts(said)]
    parts.append(markup.table(heads, rows, (2, 3, 5, 6, 7), "rows"))
    if helps:
        parts.append(markup.table(changes, helps, (1, 2, 3), "rows"))
    return markup.section(title, *parts)


@view.register
def _(found: Advice) -> str:
    rows = [
        (row.id, row.gains, f"{row.share:.0%}", row.title, row.line, row.advice)
        for row in found.rows
    ]
    title = f"{number(found.runs, 'run')}, {time(found.total_ns)}: {number(len(rows), 'finding')}"
    heads = ("finding", "would save", "share", "because", "at", "what to do")
    return markup.section(
        title,
        markup.table(heads, rows, (1, 2), "findings"),
        markup.facts([("not known", lacking) for lacking in found.lacking])
        if found.lacking
        else "",
    )


@view.register
def _(found: Check) -> str:
    said, per = found.finding.said, found.finding.per
    pairs = [
        ("before", f"{said(found.before)}{per}"),
        ("after", f"{said(found.after)}{per}"),
        ("predicted", f"{said(found.finding.low)} to {said(found.finding.high)} less"),
        ("achieved", f"{said(abs(found.achieved))} {'less' if found.achieved >= 0 else 'more'}"),
        ("inside", "yes" if found.inside else "no"),
    ]
    return markup.section(found.finding.id, markup.facts(pairs))
