"""`tf.test`: what this engine runs on. It has no GPU."""

from stepscope.tf1._absent import absent

__all__ = ["gpu_device_name", "is_built_with_cuda", "is_gpu_available"]

__getattr__ = absent(__name__)


def is_gpu_available(
    cuda_only: bool = False,  # noqa: ARG001
    min_cuda_compute_capability: tuple[int, int] | None = None,  # noqa: ARG001
) -> bool:
    """False: the embedded engine computes on the CPU."""
    return False


def is_built_with_cuda() -> bool:
    """False, likewise."""
    return False


def gpu_device_name() -> str:
    """The name of the GPU: there is none."""
    return ""
