"""Values and texts for TensorBoard's own pages: parts of `Summary` messages, made from runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepscope import _messages as pb
from stepscope.analysis import OpProfile, op_profile
from stepscope.metadata.dtype_names import dtype_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.metadata import AllocationColumns, RunMetadata

TOP_OPS: Final = 30
ALLOCATION_ROWS: Final = 1000
"""The most rows of the allocation log that are shown: the page renders all of a text at once."""


def scalar(tag: str, value: float) -> Any:
    """A number, as TensorBoard's page of scalars shows it."""
    part = pb.Summary.Value(tag=tag, simple_value=value)
    part.metadata.plugin_data.plugin_name = "scalars"
    return part


def text(tag: str, markdown: str) -> Any:
    """A text, which TensorBoard's page of texts shows as Markdown."""
    tensor = pb.TensorProto(
        dtype=pb.DataType.Value("DT_STRING"), string_val=[markdown.encode(errors="replace")]
    )
    tensor.tensor_shape.SetInParent()
    part = pb.Summary.Value(tag=tag, tensor=tensor)
    part.metadata.plugin_data.plugin_name = "text"
    part.metadata.data_class = pb.DataClass.Value("DATA_CLASS_TENSOR")
    return part


def run_summary(run: RunMetadata) -> Any:
    """A run in numbers and texts.

    Scalars: `op_time_us/<op type>` and `device_time_us/<device>` (self time, summed over
    executions), `memory_peak_bytes/<device>` where memory was recorded, `run/wall_time_us` (from
    the first start to the last end), `run/executions`, `run/overhead_fraction`. Texts: `top_ops`
    and, where there is one, `allocation_log`.
    """
    ops = run.ops
    parts = [scalar("run/executions", len(ops))]
    if len(ops):
        parts.append(
            scalar("run/wall_time_us", (int(ops.end_ns.max()) - int(ops.start_ns.min())) / 1000)
        )
    parts.append(scalar("run/overhead_fraction", run.overhead.fraction))
    by_group = {"op_time_us": op_profile(run, "op"), "device_time_us": op_profile(run, "device")}
    for group, profile in by_group.items():
        parts += [scalar(_tag(group, row.key), row.self_ns / 1000) for row in profile]
    if len(run.allocations) or len(ops.memory):
        peaks = run.device_peaks().items()
        parts += [scalar(_tag("memory_peak_bytes", device), peak) for device, peak in peaks]
    parts.append(text("top_ops", top_ops(op_profile(run, "name"))))
    log = run.allocation_log if len(run.allocation_log) else run.allocations
    if len(log):
        parts.append(text("allocation_log", allocations(log)))
    return pb.Summary(value=parts)


def _tag(group: str, name: str) -> str:
    return f"{group}/{name.lstrip('/')}"


def top_ops(profile: OpProfile) -> str:
    """The ops that took most time, as a Markdown table."""
    rows = [
        (
            row.key,
            row.op,
            row.device,
            f"{row.calls:,}",
            f"{row.self_ns / 1000:,.1f}",
            f"{row.max_ns / 1000:,.1f}",
            f"{row.share:.1%}",
            f"{row.bytes:,}",
        )
        for row in profile.rows[:TOP_OPS]
    ]
    header = ("op", "type", "device", "calls", "self µs", "longest µs", "share", "output bytes")
    lines = _table(header, rows, left=3)
    if len(profile) > TOP_OPS:
        rest = sum(row.self_ns for row in profile.rows[TOP_OPS:])
        lines += f"\n\nand {len(profile) - TOP_OPS:,} more in {rest / 1000:,.1f} µs"
    return lines


def allocations(log: AllocationColumns) -> str:
    """Allocations and frees in order of time, as a Markdown table; of many, the last ones."""
    shown = log.select(slice(max(0, len(log) - ALLOCATION_ROWS), None))
    live = log.live()[len(log) - len(shown) :]
    first = int(log.time_ns[0]) if len(log) else 0
    rows = [
        (
            name,
            event,
            kind,
            dtype_name(dtype) if dtype else "",
            "" if shape is None else str(list(shape)),
            device,
            f"{address:#x}" if address else "",
            f"{(time_ns - first) / 1000:,.1f}",
            f"{size:,}",
            f"{now:,}",
        )
        for name, event, kind, dtype, shape, device, address, time_ns, size, now in zip(
            shown.name, shown.event, shown.kind, shown.dtype.tolist(), shown.shape, shown.device,
            shown.address.tolist(), shown.time_ns.tolist(), shown.bytes.tolist(), live.tolist(),
            strict=True,
        )
    ]  # fmt: skip
    header = (
        *("op", "event", "kind", "dtype", "shape", "device", "address"),
        *("at µs", "bytes", "live bytes"),
    )
    lines = _table(header, rows, left=7)
    if len(shown) < len(log):
        lines = f"the last {len(shown):,} of {len(log):,} events\n\n{lines}"
    return lines


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> str:
    """Cells of the first `left` columns are names and such, of the others numbers."""
    ruler = ["---"] * left + ["---:"] * (len(header) - left)
    quoted = ([*map(_verbatim, cells[:left]), *cells[left:]] for cells in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ruler, *quoted))


def _verbatim(name: str) -> str:
    """As code, where `_`, `*` and `<` mean nothing; a table cannot hold a bar or a line's end."""
    name = name.replace("`", "'").replace("|", "¦").replace("\n", " ")
    return f"`{name}`" if name else ""
