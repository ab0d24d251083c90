"""Where a run's metadata goes: what a caller passed as `run_metadata=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.metadata.run_metadata import RunMetadata, is_run_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.metadata.recording import Recording

__all__ = ["RunMetadataTarget", "as_run_metadata_target"]


class RunMetadataTarget:
    """The place an engine delivers a recording to.

    `metadata` is always a `RunMetadata` of ours (for the exception of a failed run); where the
    caller passed TensorFlow's or TensorBoard's message, that message is filled as well.
    `asked_for` says whether the caller passed anything.
    """

    __slots__ = ("_foreign", "_metadata", "asked_for")

    def __init__(
        self, metadata: RunMetadata | None, *, asked_for: bool, foreign: Any = None
    ) -> None:
        self._metadata = metadata
        self.asked_for = asked_for
        self._foreign = foreign

    @property
    def metadata(self) -> RunMetadata:
        """The place; where the caller passed none, one that is made for whoever asks."""
        if self._metadata is None:
            self._metadata = RunMetadata()
        return self._metadata

    def deliver(self, recording: Recording | Callable[[], Recording]) -> RunMetadata:
        """Replace what the target held by a recording."""
        self.metadata.record(recording)
        if self._foreign is not None:
            self._foreign.ParseFromString(self.metadata.SerializeToString())
        return self.metadata


def as_run_metadata_target(value: object) -> RunMetadataTarget:
    """The target for None, for a `RunMetadata` of ours, of TensorFlow or of TensorBoard."""
    if value is None:
        return RunMetadataTarget(None, asked_for=False)
    if isinstance(value, RunMetadata):
        return RunMetadataTarget(value, asked_for=True)
    if is_run_metadata(value):
        return RunMetadataTarget(RunMetadata(), asked_for=True, foreign=value)
    found = f"the class {value.__name__} itself" if isinstance(value, type) else repr(value)[:60]
    raise TypeError(
        "run_metadata takes a RunMetadata (of Stepscope, TensorFlow or TensorBoard) to fill, "
        f"found {type(value).__name__} {found}; pass stepscope.RunMetadata()"
    )
