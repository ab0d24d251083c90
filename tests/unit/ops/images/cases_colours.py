"""Colours of images, mirrored and turned ones, parts of them."""

from __future__ import annotations

import numpy as np
from op_cases import Case

RANDOM = np.random.default_rng(43)
IMAGES = RANDOM.uniform(size=(2, 4, 5, 3)).astype("float32")
PIXELS = RANDOM.integers(0, 256, (4, 5, 3)).astype("uint8")
GREYS = np.stack([np.full((2, 3), 0.25), np.zeros((2, 3)), np.ones((2, 3))]).astype("float32")
CASES: list[Case] = []
FREE = {"graph": False}
"""What is made of other ops is compared by its values: which ops TensorFlow takes has changed."""


def case(id, op_type, build, tol=2e-6, **more):
    CASES.append(Case(id, (op_type,), build, tol=tol, **more))


for op_type, function in (("RGBToHSV", "rgb_to_hsv"), ("HSVToRGB", "hsv_to_rgb")):
    for name, images in (("images", IMAGES), ("pixel", IMAGES[0, 0, 0]), ("greys", GREYS)):
        for dtype in ("float32", "float64"):
            case(
                f"{op_type}-{name}-{dtype}",
                op_type,
                lambda tf, f=function, i=images, d=dtype: getattr(tf.image, f)(tf.constant(i, d)),
                tol=1e-5,
                grad=op_type == "RGBToHSV" and name != "greys",
            )
            # Where two parts are equal a pixel has one gradient from either side.
case("RGBToHSV-refused", "RGBToHSV", lambda tf: tf.image.rgb_to_hsv(
    tf.placeholder_with_default(np.ones((2, 4), "float32"), None)), fails="run",
    match="red, green and blue")  # fmt: skip
ADJUST = {
    "AdjustContrastv2": ("adjust_contrast", 1.75), "AdjustHue": ("adjust_hue", -0.3),
    "AdjustSaturation": ("adjust_saturation", 1.5),
}  # fmt: skip
for op_type, (function, amount) in ADJUST.items():
    for name, images in (("batch", IMAGES), ("one", IMAGES[0]), ("greys", GREYS[None])):
        case(f"{op_type}-{name}", op_type,
             lambda tf, f=function, i=images, a=amount: getattr(tf.image, f)(tf.constant(i), a),
             grad=False)  # TensorFlow has none.  # fmt: skip
    case(f"{op_type}-uint8", op_type,
         lambda tf, f=function, a=amount: getattr(tf.image, f)(tf.constant(PIXELS), a),
         grad=False, **FREE)  # As above.  # fmt: skip


def composed(id, build, op_type="Mul", **more):
    case(id, op_type, build, **FREE | more)


for dtype in ("float32", "float64", "uint8", "int32"):
    composed(f"adjust_brightness-{dtype}", lambda tf, d=dtype: tf.image.adjust_brightness(
        tf.cast(tf.constant(PIXELS), d), 0.4), op_type="Cast",
        grad=dtype == "float32")  # Integers have none.  # fmt: skip
    composed(f"rgb_to_grayscale-{dtype}", lambda tf, d=dtype: tf.image.rgb_to_grayscale(
        tf.cast(tf.constant(PIXELS), d)), op_type="MatMul", grad=False)  # As above.  # fmt: skip
for given in ("uint8", "int16", "float32", "float64"):
    for wanted in ("uint8", "int16", "int32", "float32", "float16"):
        for saturate in (False, True):
            composed(f"convert_image_dtype-{given}-{wanted}-{saturate}",
                     lambda tf, g=given, w=wanted, s=saturate: tf.image.convert_image_dtype(
                         tf.constant(np.linspace(0, 100, 7) / (1 if "int" in g else 100), g),
                         w, s), op_type="Const", grad=False)  # fmt: skip
composed("adjust_gamma", lambda tf: tf.image.adjust_gamma(tf.constant(IMAGES), 2.2, 0.5),
         op_type="Pow")  # fmt: skip
composed("grayscale_to_rgb", lambda tf: tf.image.grayscale_to_rgb(tf.constant(IMAGES[..., :1])),
         op_type="Tile")  # fmt: skip
for name, images in (("batch", IMAGES), ("one", IMAGES[0] * 9), ("flat", np.ones((4, 4, 3), "f4"))):
    composed(f"per_image_standardization-{name}", lambda tf, i=images:
             tf.image.per_image_standardization(tf.constant(i)), grad=name != "flat", tol=1e-5,
             op_type="Rsqrt")  # The gradient of a root at 0 has no end.  # fmt: skip
    composed(f"total_variation-{name}", lambda tf, i=images:
             tf.image.total_variation(tf.constant(i)), op_type="Abs")  # fmt: skip
composed("per_image_standardization-uint8", lambda tf: tf.image.per_image_standardization(
    tf.constant(PIXELS)), op_type="Cast", grad=False, tol=1e-5)  # Integers have none.  # fmt: skip
composed(
    "saturate_cast",
    lambda tf: [
        tf.saturate_cast(tf.constant([-1e20, -3.5, 0.0, 300.5, 3e9, 1e20]), d)
        for d in ("uint8", "int16", "int32", "float16")
    ],
    op_type="Cast",
    grad=False,
)
# -- parts, mirrored and turned ----------------------------------------------------------------
PARTS = {
    "crop": lambda tf, x: tf.image.crop_to_bounding_box(x, 1, 2, 2, 3),
    "pad": lambda tf, x: tf.image.pad_to_bounding_box(x, 2, 1, 8, 7),
    "crop or pad": lambda tf, x: tf.image.resize_image_with_crop_or_pad(x, 7, 2),
    "crop and pad": lambda tf, x: tf.image.resize_image_with_crop_or_pad(x, 3, 8),
    "central": lambda tf, x: tf.image.central_crop(x, 0.5),
    "left right": lambda tf, x: tf.image.flip_left_right(x),
    "up down": lambda tf, x: tf.image.flip_up_down(x),
    "turned": lambda tf, x: [tf.image.rot90(x, k) for k in range(5)],
    "transposed": lambda tf, x: tf.image.transpose_image(x),
}
for name, build in PARTS.items():
    composed(f"part-{name}-batch", lambda tf, b=build: b(tf, tf.constant(IMAGES)), op_type="Const")
    composed(f"part-{name}-one", lambda tf, b=build: b(tf, tf.constant(IMAGES[0])), op_type="Const")
    composed(f"part-{name}-fed", lambda tf, b=build: b(tf, tf.placeholder(
        "float32", [None, None, 3], name="x")), op_type="Placeholder",
        feeds={"x:0": IMAGES[0]})  # fmt: skip
composed("part-refused", lambda tf: tf.image.crop_to_bounding_box(tf.constant(IMAGES), 1, 2, 9, 3),
         op_type="Const", fails="build", match="height must be >= target")  # fmt: skip
composed("part-refused-fed", lambda tf: tf.image.crop_to_bounding_box(
    tf.placeholder("float32", [None, None, 3], name="x"), 1, 2, 9, 3), op_type="Const",
    feeds={"x:0": IMAGES[0]}, fails="run", match="height must be >= target")  # fmt: skip
# -- by chance ---------------------------------------------------------------------------------
CHANCE = {
    "left right": lambda tf, x: tf.image.random_flip_left_right(x, seed=3),
    "up down": lambda tf, x: tf.image.random_flip_up_down(x, seed=4),
    "brightness": lambda tf, x: tf.image.random_brightness(x, 0.5, seed=5),
    "contrast": lambda tf, x: tf.image.random_contrast(x, 0.5, 1.5, seed=6),
    "hue": lambda tf, x: tf.image.random_hue(x, 0.4, seed=7),
    "saturation": lambda tf, x: tf.image.random_saturation(x, 0.5, 1.5, seed=8),
    "crop": lambda tf, x: tf.random_crop(x, [*([2] if x.shape.ndims == 4 else []), 2, 2, 3], 9),
}
for name, build in CHANCE.items():
    for number, images in enumerate((IMAGES, IMAGES[1])):
        composed(f"chance-{name}-{number}", lambda tf, b=build, i=images: b(tf, tf.constant(i)),
                 op_type="RandomUniformInt" if name == "crop" else "RandomUniform",
                 grad=False)  # fmt: skip
