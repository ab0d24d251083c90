"""Functions over the model: they take runs and return values, and never print, draw or write.

Names are imported when they are asked for: who needs one question answered does not load all.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.analysis.advice import Advice, Finding, advise
    from stepscope.analysis.cluster.clock import Clocks, TaskClock, clocks
    from stepscope.analysis.cluster.network import Network, NetworkRow, network
    from stepscope.analysis.cluster.straggler import Straggler
    from stepscope.analysis.cluster.workers import Absence, Worker, WorkerRuns, workers_at
    from stepscope.analysis.compare.diff import Diff, DiffRow, diff
    from stepscope.analysis.compare.peak_owners import PeakOwner
    from stepscope.analysis.coverage.report import Coverage, CoverageRow, coverage
    from stepscope.analysis.execution.critical_path import (
        CriticalPath,
        PathPart,
        Saving,
        critical_path,
    )
    from stepscope.analysis.execution.parallelism import Lane, Parallelism, Wait, parallelism
    from stepscope.analysis.execution.placement import (
        PlacedOp,
        PlacementReport,
        Transfer,
        placement,
    )
    from stepscope.analysis.input.input_pipeline import InputPipelines, input_pipeline
    from stepscope.analysis.input.stages import Pipeline, Stage
    from stepscope.analysis.memory.flame import FlameRow, MemoryFlame, memory_flame
    from stepscope.analysis.memory.growth import GrowthRow, MemoryGrowth, memory_growth
    from stepscope.analysis.memory.profile import (
        DeviceMemory,
        MemoryProfile,
        MemoryRow,
        OutOfMemoryProfile,
        memory_profile,
        oom,
    )
    from stepscope.analysis.profile.layer_profile import (
        LayerProfile,
        LayerRow,
        ModelTime,
        layer_profile,
    )
    from stepscope.analysis.profile.op_profile import OpProfile, OpRow, op_profile
    from stepscope.analysis.program.account import Account, AccountRow, account
    from stepscope.analysis.program.retraces import Retrace, Retraces, retraces
    from stepscope.analysis.program.steps import Outlier, StepRow, Steps, steps
    from stepscope.analysis.program.verdict import Limit, StepVerdict, Verdict, verdict
    from stepscope.analysis.result import Result
    from stepscope.analysis.runs import NamedRun, named_runs
    from stepscope.analysis.why import (
        ByteCauses,
        Cover,
        Holder,
        Link,
        OpCauses,
        RunCauses,
        why_bytes,
        why_op,
        why_run,
    )
    from stepscope.analysis.work.work_profile import WorkProfile, WorkRow, work_profile
else:
    # The room of this name would take the function's place when it is imported later.
    from stepscope.analysis.coverage.report import coverage
    from stepscope.lazy_imports import lazy_names as _lazy_names

    _ROOMS = (
        "cluster", "compare", "execution", "input", "memory", "model_profile", "profile",
        "program", "replay", "sampling", "work",
    )  # fmt: skip
    __getattr__ = _lazy_names(
        __name__,
        {
            "advice": "Advice Finding advise",
            "cluster.clock": "Clocks TaskClock clocks",
            "cluster.network": "Network NetworkRow network",
            "cluster.straggler": "Straggler",
            "cluster.workers": "Absence Worker WorkerRuns workers_at",
            "compare.diff": "Diff DiffRow diff",
            "compare.peak_owners": "PeakOwner",
            "coverage.report": "Coverage CoverageRow coverage",
            "execution.critical_path": "CriticalPath PathPart Saving critical_path",
            "execution.parallelism": "Lane Parallelism Wait parallelism",
            "execution.placement": "PlacedOp PlacementReport Transfer placement",
            "input.input_pipeline": "InputPipelines input_pipeline",
            "input.stages": "Pipeline Stage",
            "memory.flame": "FlameRow MemoryFlame memory_flame",
            "memory.growth": "GrowthRow MemoryGrowth memory_growth",
            "memory.profile": (
                "DeviceMemory MemoryProfile MemoryRow OutOfMemoryProfile memory_profile oom"
            ),
            "profile.layer_profile": "LayerProfile LayerRow ModelTime layer_profile",
            "profile.op_profile": "OpProfile OpRow op_profile",
            "program.account": "Account AccountRow account",
            "program.retraces": "Retrace Retraces retraces",
            "program.steps": "Outlier StepRow Steps steps",
            "program.verdict": "Limit StepVerdict Verdict verdict",
            "result": "Result",
            "runs": "NamedRun named_runs",
            "why": "ByteCauses Cover Holder Link OpCauses RunCauses why_bytes why_op why_run",
            "work.work_profile": "WorkProfile WorkRow work_profile",
            **dict.fromkeys(_ROOMS, ""),
        },
    )

__all__ = [
    "Absence",
    "Account",
    "AccountRow",
    "Advice",
    "ByteCauses",
    "Clocks",
    "Cover",
    "Coverage",
    "CoverageRow",
    "CriticalPath",
    "DeviceMemory",
    "Diff",
    "DiffRow",
    "Finding",
    "FlameRow",
    "GrowthRow",
    "Holder",
    "InputPipelines",
    "Lane",
    "LayerProfile",
    "LayerRow",
    "Limit",
    "Link",
    "MemoryFlame",
    "MemoryGrowth",
    "MemoryProfile",
    "MemoryRow",
    "ModelTime",
    "NamedRun",
    "Network",
    "NetworkRow",
    "OpCauses",
    "OpProfile",
    "OpRow",
    "OutOfMemoryProfile",
    "Outlier",
    "Parallelism",
    "PathPart",
    "PeakOwner",
    "Pipeline",
    "PlacedOp",
    "PlacementReport",
    "Result",
    "Retrace",
    "Retraces",
    "RunCauses",
    "Saving",
    "Stage",
    "StepRow",
    "StepVerdict",
    "Steps",
    "Straggler",
    "TaskClock",
    "Transfer",
    "Verdict",
    "Wait",
    "WorkProfile",
    "WorkRow",
    "Worker",
    "WorkerRuns",
    "account",
    "advise",
    "clocks",
    "coverage",
    "critical_path",
    "diff",
    "input_pipeline",
    "layer_profile",
    "memory_flame",
    "memory_growth",
    "memory_profile",
    "named_runs",
    "network",
    "oom",
    "op_profile",
    "parallelism",
    "placement",
    "retraces",
    "steps",
    "verdict",
    "why_bytes",
    "why_op",
    "why_run",
    "work_profile",
    "workers_at",
]
