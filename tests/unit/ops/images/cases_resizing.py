"""Images of another size."""

from __future__ import annotations

import numpy as np
from op_cases import Case

RANDOM = np.random.default_rng(31)
IMAGES = RANDOM.normal(size=(2, 4, 5, 3))
PIXELS = RANDOM.integers(0, 256, (1, 3, 4, 3))
MADE = RANDOM.normal(size=(2, 7, 3, 3))
CASES: list[Case] = []
KINDS = {
    "ResizeBilinear": "resize_bilinear", "ResizeNearestNeighbor": "resize_nearest_neighbor",
    "ResizeBicubic": "resize_bicubic", "ResizeArea": "resize_area",
}  # fmt: skip


def case(id, op_type, build, tol=2e-6, **more):
    CASES.append(Case(id, (op_type,), build, tol=tol, **more))


for op_type, function in KINDS.items():
    for size in ([7, 3], [8, 10], [2, 2], [1, 1]):
        for options in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
            if op_type == "ResizeArea" and "half_pixel_centers" in options:
                continue
            tag = f"{op_type}-{size[0]}-{size[1]}-{'-'.join(options)}"
            case(tag, op_type, lambda tf, f=function, s=size, o=options: getattr(tf.image, f)(
                tf.constant(IMAGES, "float32"), s, **o), grad=op_type != "ResizeArea")  # fmt: skip
    case(f"{op_type}-float64", op_type, lambda tf, f=function: getattr(tf.image, f)(
        tf.constant(IMAGES), [6, 4], name="r"),
        grad=op_type != "ResizeArea")  # TensorFlow has none.  # fmt: skip
    case(f"{op_type}-uint8", op_type, lambda tf, f=function: getattr(tf.image, f)(
        tf.constant(PIXELS, "uint8"), [5, 9]), tol=2e-5)  # fmt: skip
    case(f"{op_type}-fed", op_type, lambda tf, f=function: getattr(tf.image, f)(
        tf.placeholder("float32", [None, None, None, 3], name="x"),
        tf.placeholder("int32", [2], name="s")), feeds={"x:0": IMAGES, "s:0": [3, 7]},
        grad=op_type != "ResizeArea")  # As above.  # fmt: skip
    case(f"{op_type}-empty", op_type, lambda tf, f=function: getattr(tf.image, f)(
        tf.constant(IMAGES), tf.placeholder_with_default([0, 2], [2])), fails="run",
        match="must be positive")  # fmt: skip
for dtype in ("float32", "float64"):
    case(f"ResizeBilinearGrad-{dtype}", "ResizeBilinearGrad",
         lambda tf, d=dtype: tf.raw_ops.ResizeBilinearGrad(
             grads=tf.constant(MADE, "float32"), original_image=tf.constant(IMAGES, d)),
         grad=False)  # TensorFlow has none.  # fmt: skip
    case(f"ResizeNearestNeighborGrad-{dtype}", "ResizeNearestNeighborGrad",
         lambda tf, d=dtype: tf.raw_ops.ResizeNearestNeighborGrad(
             grads=tf.constant(MADE, d), size=[4, 5]), grad=False)  # As above.  # fmt: skip
    case(f"ResizeBicubicGrad-{dtype}", "ResizeBicubicGrad",
         lambda tf, d=dtype: tf.raw_ops.ResizeBicubicGrad(
             grads=tf.constant(MADE, "float32"), original_image=tf.constant(IMAGES, d),
             half_pixel_centers=d == "float64"), grad=False)  # As above.  # fmt: skip
case("ResizeBicubicGrad-aligned", "ResizeBicubicGrad", lambda tf: tf.raw_ops.ResizeBicubicGrad(
    grads=tf.constant(MADE[:1], "float32"), original_image=tf.constant(IMAGES[:1], "float32"),
    align_corners=True), grad=False)  # As above.  # fmt: skip
case("ResizeBilinearGrad-aligned", "ResizeBilinearGrad", lambda tf: tf.raw_ops.ResizeBilinearGrad(
    grads=tf.constant(MADE[:1], "float32"), original_image=tf.constant(IMAGES[:1], "float32"),
    align_corners=True), grad=False)  # As above.  # fmt: skip
case("ResizeNearestNeighborGrad-aligned", "ResizeNearestNeighborGrad",
     lambda tf: tf.raw_ops.ResizeNearestNeighborGrad(
         grads=tf.constant(MADE[:1], "float32"), size=[2, 9], align_corners=True),
     grad=False)  # As above.  # fmt: skip
case("resize_images", "ResizeBilinear", lambda tf: tf.image.resize_images(
    tf.constant(IMAGES, "float32"), [6, 3]))  # fmt: skip
case("resize_images-one", "ResizeNearestNeighbor", lambda tf: tf.image.resize_images(
    tf.constant(PIXELS[0], "uint8"), (6, 3), tf.image.ResizeMethod.NEAREST_NEIGHBOR,
    name="n"))  # fmt: skip
case("resize_images-aligned", "ResizeBilinear", lambda tf: tf.image.resize_images(
    tf.constant(IMAGES[0], "float32"), tf.constant([6, 3]), align_corners=True))  # fmt: skip
case("resize_images-same", "Const", lambda tf: tf.image.resize_images(
    tf.constant(IMAGES, "float32"), [4, 5]))  # fmt: skip
case("resize_images-fed", "ResizeBilinear", lambda tf: tf.image.resize_images(
    tf.placeholder("float32", [None, None, 3], name="x"), [4, 5]),
    feeds={"x:0": IMAGES[0]})  # fmt: skip
for method in ("BICUBIC", "AREA"):
    case(f"resize_images-{method}", f"Resize{method.title()}", lambda tf, m=method:
         tf.image.resize_images(tf.constant(IMAGES[0], "float32"), [3, 8],
                                getattr(tf.image.ResizeMethod, m)),
         grad=method != "AREA")  # As above.  # fmt: skip
case("resize_images-ratio", "ResizeBilinear", lambda tf: tf.image.resize_images(
    tf.constant(IMAGES, "float32"), [9, 9], preserve_aspect_ratio=True),
    graph=False)  # The new size is worked out with other ops.  # fmt: skip
case("resize_images-no method", "ResizeBilinear", lambda tf: tf.image.resize_images(
    tf.constant(IMAGES, "float32"), [9, 9], method=9), fails="build",
    match="not implemented")  # fmt: skip
