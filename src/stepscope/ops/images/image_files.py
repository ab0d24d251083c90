"""Pictures as files and as arrays, by Pillow: DecodePng, DecodeJpeg, EncodePng and such.

Pillow is an extra (`pip install "stepscope[images]"`); only these kernels ask for it. JPEGs are
decoded by the same library as TensorFlow's, so that pixels agree where the way of decoding does.
"""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError, UnimplementedError
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import Array, as_dtype, float32, uint8, uint16
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, register
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape
from stepscope.ops.signatures import exactly_rank, output_of

__all__ = [
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
]

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        raise UnimplementedError.without_op(
            'Pictures are decoded and encoded by Pillow: pip install "stepscope[images]".'
        ) from None
    return Image


def _opened(contents: Any, what: str) -> Any:
    data = np.asarray(contents, dtype=object).item()
    try:
        return _pillow().open(io.BytesIO(data))
    except OSError as error:
        raise InvalidArgumentError.without_op(
            f"Invalid {what} data: {error} ({len(data)} bytes, {data[:8]!r}...)"
        ) from None


def _pixels(picture: Any, channels: int, dtype: Any) -> Array:
    """The picture as (height, width, channels); 0 channels for as many as it has."""
    if picture.mode.startswith("I;16") or picture.mode == "I":
        found: Array = np.asarray(picture).astype(np.uint16)[:, :, None]
        found = np.repeat(found, channels, axis=2) if channels == 3 else found
    else:
        if picture.mode == "P":
            with_alpha = "transparency" in picture.info
            picture = picture.convert("RGBA" if with_alpha else "RGB")
        if picture.mode == "1":
            picture = picture.convert("L")
        wanted = _MODES.get(channels or len(picture.getbands()), "RGB")
        try:
            found = np.asarray(picture if picture.mode == wanted else picture.convert(wanted))
        except (OSError, SyntaxError) as error:
            raise InvalidArgumentError.without_op(f"Invalid image data: {error}") from None
        found = found if found.ndim == 3 else found[:, :, None]
    if dtype == np.uint16 and found.dtype == np.uint8:
        return found.astype(np.uint16) * np.uint16(257)
    if dtype == np.uint8 and found.dtype == np.uint16:
        return (found >> 8).astype(np.uint8)
    if dtype == np.float32:
        return found.astype(np.float32) / np.float32(np.iinfo(found.dtype).max)
    return np.ascontiguousarray(found)


def _channels(c: ShapeContext) -> int | None:
    channels: int = c.attr("channels")
    if channels < 0 or channels > 4:
        raise ValueError(f"channels must be non-negative and at most 4, got {channels}")
    return channels or None


def _picture_shape(c: ShapeContext) -> TensorShape:
    exactly_rank(c.input(0), 0)
    return TensorShape([None, None, _channels(c)])


# -- decoding ----------------------------------------------------------------------------------


def _decode_kernel(node: KernelNode) -> Kernel:
    channels, dtype = node.attr("channels"), node.output_dtypes[0].numpy

    def call(contents: Any) -> Array:
        return _pixels(_opened(contents, node.op.type.removeprefix("Decode")), channels, dtype)

    return Kernel(call)


def _jpeg_kernel(node: KernelNode) -> Kernel:
    channels, ratio = node.attr("channels"), node.attr("ratio")

    def call(contents: Any) -> Array:
        picture = _opened(contents, "JPEG")
        if ratio > 1:
            width, height = picture.size
            # Pillow takes the largest scale of which something at least so large is left.
            picture.draft(None, (width // ratio, height // ratio))
        return _pixels(picture, channels, np.uint8)

    return Kernel(call)


def _frames(picture: Any) -> Array:
    frames = []
    for number in range(getattr(picture, "n_frames", 1)):
        picture.seek(number)
        frames.append(np.asarray(picture.convert("RGB")))
    return np.stack(frames)


def _gif_kernel(_node: KernelNode) -> Kernel:
    return Kernel(lambda contents: _frames(_opened(contents, "GIF")))


def _image_kernel(node: KernelNode) -> Kernel:
    channels, dtype = node.attr("channels"), node.attr("dtype").numpy
    animated = node.attr("expand_animations")

    def call(contents: Any) -> Array:
        picture = _opened(contents, "image")
        if picture.format != "GIF":
            return _pixels(picture, channels, dtype)
        frames = _frames(picture)
        if dtype == np.float32:
            frames = frames.astype(np.float32) / np.float32(255)
        elif dtype == np.uint16:
            frames = frames.astype(np.uint16) * np.uint16(257)
        return frames if animated else frames[0]

    return Kernel(call)


_JPEG = ("channels: int = 0", "ratio: int = 1", "fancy_upscaling: bool = true",
         "try_recover_truncated: bool = false", "acceptable_fraction: float = 1.0",
         "dct_method: string = ''")  # fmt: skip
register(
    "DecodePng",
    inputs=("contents: string",),
    outputs=("image: dtype",),
    attrs=("channels: int = 0", "dtype: type = uint8"),
    shape=_picture_shape,
    kernel=_decode_kernel,
)
register(
    "DecodeBmp",
    inputs=("contents: string",),
    outputs=("image: uint8",),
    attrs=("channels: int = 0",),
    shape=_picture_shape,
    kernel=_decode_kernel,
)
register(
    "DecodeJpeg",
    inputs=("contents: string",),
    outputs=("image: uint8",),
    attrs=_JPEG,
    shape=_picture_shape,
    kernel=_jpeg_kernel,
)
register(
    "DecodeGif",
    inputs=("contents: string",),
    outputs=("image: uint8",),
    shape=lambda _c: TensorShape([None, None, None, 3]),
    kernel=_gif_kernel,
)
register(
    "DecodeImage",
    inputs=("contents: string",),
    outputs=("image: dtype",),
    attrs=("channels: int = 0", "dtype: type = uint8", "expand_animations: bool = true"),
    shape=lambda c: UNKNOWN if c.attr("expand_animations") else _picture_shape(c),
    kernel=_image_kernel,
)


def decode_png(
    contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None
) -> Tensor:
    """The pixels of a PNG as (height, width, channels), uint8 or uint16.

    >>> import numpy as np
    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     picture = tf.image.encode_png(np.full((2, 3, 1), 7, np.uint8))
    ...     session.run(tf.image.decode_png(picture)).shape
    (2, 3, 1)
    """
    return output_of("DecodePng", contents, channels=channels, dtype=as_dtype(dtype), name=name)


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """The pixels of a BMP as (height, width, channels)."""
    return output_of("DecodeBmp", contents, channels=channels, name=name)


def decode_jpeg(
    contents: Any, channels: int = 0, ratio: int = 1, fancy_upscaling: bool = True,
    try_recover_truncated: bool = False, acceptable_fraction: float = 1, dct_method: str = "",
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The pixels of a JPEG as (height, width, channels); `ratio` makes it smaller by so much."""
    return output_of(
        "DecodeJpeg", contents, channels=channels, ratio=ratio, fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=float(acceptable_fraction), dct_method=dct_method, name=name,
    )  # fmt: skip


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """The frames of a GIF as (frames, height, width, 3)."""
    return output_of("DecodeGif", contents, name=name)


def decode_image(
    contents: Any, channels: int | None = None, dtype: Any = uint8, name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:  # fmt: skip
    """The pixels of a BMP, GIF, JPEG or PNG; all frames of a GIF with `expand_animations`."""
    wanted = as_dtype(dtype)
    with name_scope(name, "decode_image"):
        direct = wanted in (uint8, uint16, float32)
        if not direct:
            raise InvalidArgumentError.without_op(
                f"decode_image gives uint8, uint16 or float32, not {wanted.name}; use "
                "tf.image.convert_image_dtype."
            )
        return output_of(
            "DecodeImage", contents, channels=channels or 0, dtype=wanted,
            expand_animations=expand_animations,
        )  # fmt: skip


# -- encoding ----------------------------------------------------------------------------------


def _encode(array: Array, **options: Any) -> Array:
    channels = array.shape[-1]
    if channels not in _MODES or array.ndim != 3:
        raise InvalidArgumentError.without_op(
            f"A picture is (height, width, channels) with 1 to 4 channels, not {array.shape}."
        )
    flat = array[:, :, 0] if channels == 1 else array
    if array.dtype == np.uint16 and channels > 1:
        raise UnimplementedError.without_op("PNGs of 16 bits per channel have one channel here.")
    file = io.BytesIO()
    _pillow().fromarray(flat).save(file, **options)
    return np.array(file.getvalue(), dtype=object)


def _encode_png_kernel(node: KernelNode) -> Kernel:
    level = node.attr("compression")
    options = {} if level < 0 else {"compress_level": level}
    return Kernel(lambda image: _encode(np.asarray(image), format="PNG", **options))


register(
    "EncodePng",
    inputs=("image: T",),
    outputs=("contents: string",),
    attrs=("compression: int = -1", "T: type = uint8"),
    shape=lambda c: (exactly_rank(c.input(0), 3), SCALAR)[1],
    kernel=_encode_png_kernel,
)


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """The picture (height, width, channels) as the content of a PNG."""
    given = convert_to_tensor(image, None, "image", preferred_dtype=uint8)
    return output_of("EncodePng", given, compression=compression, name=name)


def _encode_jpeg_kernel(node: KernelNode) -> Kernel:
    form = node.attr("format").decode()
    options = {
        "format": "JPEG", "quality": node.attr("quality"),
        "progressive": node.attr("progressive"), "optimize": node.attr("optimize_size"),
        "subsampling": 2 if node.attr("chroma_downsampling") else 0,
        "dpi": (node.attr("x_density"), node.attr("y_density")),
    }  # fmt: skip

    def call(image: Any) -> Array:
        array = np.asarray(image)
        wanted = {"grayscale": 1, "rgb": 3}.get(form, array.shape[-1])
        if array.ndim != 3 or array.shape[-1] != wanted or wanted not in (1, 3):
            raise InvalidArgumentError.without_op(
                f"image of shape {array.shape} is not a picture of format "
                f"{form or 'grayscale or rgb'!r}"
            )
        return _encode(array, **options)

    return Kernel(call)


register(
    "EncodeJpeg",
    inputs=("image: uint8",),
    outputs=("contents: string",),
    attrs=("format: string = ''", "quality: int = 95", "progressive: bool = false",
           "optimize_size: bool = false", "chroma_downsampling: bool = true",
           "density_unit: string = 'in'", "x_density: int = 300", "y_density: int = 300",
           "xmp_metadata: string = ''"),
    shape=lambda c: (exactly_rank(c.input(0), 3), SCALAR)[1],
    kernel=_encode_jpeg_kernel,
)  # fmt: skip


def encode_jpeg(
    image: Any, format: str = "", quality: int = 95, progressive: bool = False,
    optimize_size: bool = False, chroma_downsampling: bool = True, density_unit: str = "in",
    x_density: int = 300, y_density: int = 300, xmp_metadata: str = "", name: str | None = None,
) -> Tensor:  # fmt: skip
    """The picture (height, width, 1 or 3) as the content of a JPEG."""
    return output_of(
        "EncodeJpeg", image, format=format, quality=quality, progressive=progressive,
        optimize_size=optimize_size, chroma_downsampling=chroma_downsampling,
        density_unit=density_unit, x_density=x_density, y_density=y_density,
        xmp_metadata=xmp_metadata, name=name,
    )  # fmt: skip


def _jpeg_shape_kernel(node: KernelNode) -> Kernel:
    dtype = node.attr("output_type").numpy

    def call(contents: Any) -> Array:
        picture = _opened(contents, "JPEG")
        return np.array([picture.height, picture.width, len(picture.getbands())], dtype)

    return Kernel(call)


register(
    "ExtractJpegShape",
    inputs=("contents: string",),
    outputs=("image_shape: output_type",),
    attrs=("output_type: type = int32",),
    shape=lambda _c: TensorShape([3]),
    kernel=_jpeg_shape_kernel,
)


def extract_jpeg_shape(
    contents: Any, output_type: Any = "int32", name: str | None = None
) -> Tensor:
    """(height, width, channels) of a JPEG, without decoding it."""
    return output_of("ExtractJpegShape", contents, output_type=as_dtype(output_type), name=name)
