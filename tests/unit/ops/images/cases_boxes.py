"""Boxes in images: crops of them, the best of them, frames around them."""

from __future__ import annotations

import numpy as np
from op_cases import Case

RANDOM = np.random.default_rng(41)
IMAGES = RANDOM.normal(size=(2, 7, 6, 3)).astype("float32")
BOXES = np.array([[0.1, 0.2, 0.7, 0.9], [0.9, 0.8, 0.2, 0.1], [-0.3, 0.0, 0.6, 1.4]], "float32")
WHICH = [1, 0, 1]
CORNERS = RANDOM.uniform(size=(12, 2)).astype("float32")
MANY = np.concatenate([CORNERS, CORNERS + RANDOM.uniform(0.3, 0.6, (12, 2))], 1).astype("float32")
SCORES = RANDOM.uniform(size=12).astype("float32")
CASES: list[Case] = []


def case(id, op_type, build, tol=1e-5, **more):
    CASES.append(Case(id, (op_type,), build, tol=tol, **more))


for size in ([3, 4], [1, 5], [1, 1], [9, 2]):
    for method in ("bilinear", "nearest"):
        # The gradient of TensorFlow for boxes is that of bilinear crops, whatever the method.
        case(f"CropAndResize-{size}-{method}", "CropAndResize",
             lambda tf, s=size, m=method: tf.image.crop_and_resize(
                 tf.constant(IMAGES), BOXES, WHICH, s, m, 0.5),
             grad=method == "bilinear")  # fmt: skip
case("CropAndResize-uint8", "CropAndResize", lambda tf: tf.image.crop_and_resize(
    tf.constant(np.abs(IMAGES * 50), "uint8"), BOXES[:1], [0], [2, 2]))  # fmt: skip
case("CropAndResize-fed", "CropAndResize", lambda tf: tf.image.crop_and_resize(
    tf.placeholder("float32", [None, None, None, 3], name="x"), tf.constant(BOXES), WHICH,
    tf.placeholder("int32", [2], name="s")), feeds={"x:0": IMAGES, "s:0": [3, 7]})  # fmt: skip
case("CropAndResize-none-such", "CropAndResize", lambda tf: tf.image.crop_and_resize(
    tf.constant(IMAGES), BOXES, [0, 1, 2], [2, 2]), fails="run", match="outside")  # fmt: skip
for method in ("bilinear", "nearest"):
    for dtype in ("float32", "float64"):
        case(f"CropAndResizeGradImage-{method}-{dtype}", "CropAndResizeGradImage",
             lambda tf, m=method, d=dtype: tf.raw_ops.CropAndResizeGradImage(
                 grads=tf.constant(IMAGES[:, :3, :4]), boxes=BOXES[:2], box_ind=[1, 0],
                 image_size=[2, 5, 6, 3], T=tf.as_dtype(d), method=m),
             grad=False)  # TensorFlow has none.  # fmt: skip
for size in (3, 1):
    for dtype in ("float32", "float64"):
        case(f"CropAndResizeGradBoxes-{size}-{dtype}", "CropAndResizeGradBoxes",
             lambda tf, s=size, d=dtype: tf.raw_ops.CropAndResizeGradBoxes(
                 grads=tf.constant(IMAGES[:, :s, :s]), image=tf.constant(IMAGES, d),
                 boxes=BOXES[:2], box_ind=[1, 0]),
             grad=False)  # As above.  # fmt: skip
for overlap, least, most in ((0.5, None, 20), (0.2, None, 20), (0.5, 0.4, 20), (0.9, 0.0, 3)):
    more = {} if least is None else {"score_threshold": least}
    case(f"NonMaxSuppressionV3-{overlap}-{least}-{most}", "NonMaxSuppressionV3",
         lambda tf, o=overlap, n=most, m=more: tf.image.non_max_suppression(
             tf.constant(MANY), tf.constant(SCORES), n, o, **m))  # fmt: skip
case("NonMaxSuppressionV3-half", "NonMaxSuppressionV3", lambda tf: tf.raw_ops.NonMaxSuppressionV3(
    boxes=tf.constant(MANY[:5], "float16"), scores=tf.constant(SCORES[:5], "float16"),
    max_output_size=4, iou_threshold=0.5, score_threshold=0.1))  # fmt: skip
case("NonMaxSuppressionV3-refused", "NonMaxSuppressionV3", lambda tf: tf.image.non_max_suppression(
    tf.constant(MANY), tf.constant(SCORES), 5, tf.placeholder_with_default(1.5, [])), fails="run",
    match="iou_threshold")  # fmt: skip
THERE = np.stack([MANY[:4], MANY[4:8] - 0.3])
for depth in (1, 3):
    for dtype in ("float32", "float16"):
        case(f"DrawBoundingBoxes-{depth}-{dtype}", "DrawBoundingBoxes",
             lambda tf, n=depth, d=dtype: tf.image.draw_bounding_boxes(
                 tf.constant(IMAGES[..., :n], d), THERE),
             grad=False)  # TensorFlow has none.  # fmt: skip
        case(f"DrawBoundingBoxesV2-{depth}-{dtype}", "DrawBoundingBoxesV2",
             lambda tf, n=depth, d=dtype: tf.image.draw_bounding_boxes(
                 tf.constant(IMAGES[:, :5, :, :n], d), THERE, colors=np.eye(3, 4, dtype="float32")),
             grad=False)  # As above.  # fmt: skip
