"""`RunConfig`: how often an Estimator saves, logs and traces, and where."""

from __future__ import annotations

import copy
import json
import operator
import os
from typing import Any, Self

from stepscope.errors import UnimplementedError
from stepscope.programs import log

_DEFAULT: Any = object()
_SAVED_BOTH = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."
_REPLACEABLE = (
    "model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps",
    "save_checkpoints_secs", "session_config", "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours", "log_step_count_steps", "device_fn", "protocol",
    "experimental_max_worker_delay_secs", "session_creation_timeout_secs",
    "checkpoint_save_graph_def", "save_run_metadata_steps",
)  # fmt: skip


class RunConfig:
    """What an Estimator does besides training. TensorFlow's arguments, and one of ours.

    `save_run_metadata_steps=n` traces every n-th step of training (0, n, 2n and so on by the global
    step) and adds its metadata to the Estimator's own event file, where the graph and the summaries
    are, tagged `step_<n>`. TensorFlow's RunConfig does not have it: there, and wherever a program
    is to run on both, pass a `ProfilerHook` or `stepscope.TraceHook` to `train`.

    There is one process: a cluster in TF_CONFIG and distribution strategies are refused.
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: Any = _DEFAULT,
        save_checkpoints_secs: Any = _DEFAULT,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Any = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: float | None = None,
        session_creation_timeout_secs: float = 7200,
        checkpoint_save_graph_def: bool = True,
        save_run_metadata_steps: int | None = None,
    ) -> None:
        if save_checkpoints_steps is _DEFAULT and save_checkpoints_secs is _DEFAULT:
            save_checkpoints_secs = 600
        for name, given in (
            ("train_distribute", train_distribute),
            ("eval_distribute", eval_distribute),
            ("experimental_distribute", experimental_distribute),
        ):
            if given is not None:
                raise _one_process(f"RunConfig({name}=...)")
        self._values = {
            "model_dir": _model_dir(model_dir, _tf_config()),
            "tf_random_seed": tf_random_seed,
            "save_summary_steps": save_summary_steps,
            "save_checkpoints_steps": _given(save_checkpoints_steps),
            "save_checkpoints_secs": _given(save_checkpoints_secs),
            "session_config": session_config,
            "keep_checkpoint_max": keep_checkpoint_max,
            "keep_checkpoint_every_n_hours": keep_checkpoint_every_n_hours,
            "log_step_count_steps": log_step_count_steps,
            "device_fn": device_fn,
            "protocol": protocol,
            "experimental_max_worker_delay_secs": experimental_max_worker_delay_secs,
            "session_creation_timeout_secs": session_creation_timeout_secs,
            "checkpoint_save_graph_def": checkpoint_save_graph_def,
            "save_run_metadata_steps": save_run_metadata_steps,
        }
        _check(self._values)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        if name in _OF_ONE_PROCESS:
            return _OF_ONE_PROCESS[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def replace(self, **kwargs: Any) -> Self:
        """A copy with some of its values changed.

        Of the two ways to say when checkpoints are saved, the one not given is taken out.
        """
        unknown = [name for name in kwargs if name not in _REPLACEABLE]
        if unknown:
            raise ValueError(
                f"Replacing {unknown[0]} is not supported. Allowed properties are {_REPLACEABLE}."
            )
        steps, secs = "save_checkpoints_steps", "save_checkpoints_secs"
        if steps in kwargs and secs in kwargs and None not in (kwargs[steps], kwargs[secs]):
            raise ValueError(_SAVED_BOTH)
        made = copy.copy(self)
        made._values = {**self._values, **kwargs}
        if (steps in kwargs) != (secs in kwargs):
            made._values[secs if steps in kwargs else steps] = None
        _check(made._values)
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._values.items())})"


_OF_ONE_PROCESS: dict[str, Any] = {
    "train_distribute": None,
    "eval_distribute": None,
    "experimental_distribute": None,
    "cluster_spec": {},
    "task_type": "worker",
    "task_id": 0,
    "global_id_in_cluster": 0,
    "is_chief": True,
    "master": "",
    "evaluation_master": "",
    "num_ps_replicas": 0,
    "num_worker_replicas": 1,
    "service": None,
}


def _given(value: Any) -> Any:
    return None if value is _DEFAULT else value


def _check(values: dict[str, Any]) -> None:
    if values["save_checkpoints_steps"] is not None and values["save_checkpoints_secs"] is not None:
        raise ValueError(_SAVED_BOTH)
    for name, least in (
        ("save_summary_steps", 0),
        ("save_checkpoints_steps", 0),
        ("save_checkpoints_secs", 0),
        ("keep_checkpoint_max", 0),
        ("log_step_count_steps", 1),
    ):
        if values[name] is not None and values[name] < least:
            raise ValueError(f"{name} should be >= {least}, found {values[name]}")
    steps = values["save_run_metadata_steps"]
    if steps is not None and (isinstance(steps, bool) or operator.index(steps) < 1):
        raise ValueError(
            f"save_run_metadata_steps should be a number of steps, 1 or more, or None; found "
            f"{steps!r}"
        )


def _tf_config() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(os.environ.get("TF_CONFIG") or "{}")
    if found:
        log.info("TF_CONFIG environment variable: %s", found)
    if found.get("cluster"):
        raise _one_process("A cluster in TF_CONFIG")
    return found


def _model_dir(model_dir: str | os.PathLike[str] | None, tf_config: dict[str, Any]) -> str | None:
    there = tf_config.get("model_dir")
    if model_dir is None:
        return there
    path = os.fspath(model_dir)
    if path == "":
        raise ValueError("model_dir should be non-empty.")
    if there is not None and there != path:
        raise ValueError(
            f"`model_dir` provided in RunConfig construct, if set, must have the same value as the "
            f"model_dir in TF_CONFIG. model_dir: {path}\nTF_CONFIG[`model_dir`]: {there}."
        )
    return path


def _one_process(asked: str) -> UnimplementedError:
    return UnimplementedError.without_op(
        f"{asked}: an Estimator of Stepscope's embedded engine trains in this process alone; leave "
        "it out, or run the program on TensorFlow (stepscope run --engine tensorflow).",
    )
