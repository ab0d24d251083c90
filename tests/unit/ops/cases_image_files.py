"""Pictures as files. What encoders write differs byte by byte; what is decoded again does not."""

import io

import numpy as np
from op_cases import Case
from PIL import Image

RNG = np.random.default_rng(1)
SMOOTH = np.add.outer(np.arange(9) * 7, np.arange(14) * 11)[:, :, None] + [0, 20, 40]
COLOURS = (SMOOTH % 256).astype(np.uint8)
NOISE = RNG.integers(0, 256, (5, 7, 4), np.uint8)


def saved(array, **options):
    file = io.BytesIO()
    Image.fromarray(array).save(file, **options)
    return file.getvalue()


PNG = saved(NOISE, format="PNG")
GREY = saved(NOISE[:, :, 0], format="PNG")
DEEP = saved((NOISE[:, :, 0].astype(np.uint16) << 8) + 3, format="PNG")
JPEG = saved(COLOURS, format="JPEG", quality=95, subsampling=0)
GREY_JPEG = saved(COLOURS[:, :, 0], format="JPEG")
BMP = saved(COLOURS, format="BMP")
FRAMES = [Image.fromarray(COLOURS[:, :, 0] // k).convert("P") for k in (1, 2)]
_file = io.BytesIO()
FRAMES[0].save(_file, format="GIF", save_all=True, append_images=FRAMES[1:])
GIF = _file.getvalue()


def png_again(*shape, dtype=np.uint8):
    array = (np.arange(np.prod(shape)) * 37 % 251).reshape(shape).astype(dtype)

    def build(tf):
        contents = tf.image.encode_png(tf.constant(array))
        return tf.image.decode_png(contents, dtype=array.dtype)

    return build


def jpeg_length(tf):
    contents = tf.image.encode_jpeg(tf.constant(COLOURS))
    return tf.image.extract_jpeg_shape(contents)


CASES = [
    Case("png/decoded", ("DecodePng",), lambda tf: [tf.image.decode_png(c) for c in (PNG, GREY)]),
    Case("png/channels", ("DecodePng",),
         lambda tf: [tf.image.decode_png(PNG, channels=3), tf.image.decode_png(GREY, channels=3)]),
    Case("png/16 bits", ("DecodePng",),
         lambda tf: [tf.image.decode_png(c, dtype=tf.uint16) for c in (DEEP, GREY)]),
    Case("png/fed", ("DecodePng",),
         lambda tf: tf.image.decode_png(tf.placeholder(tf.string, [], "c"), 1), {"c:0": GREY}),
    Case("png/encoded", ("EncodePng",), png_again(4, 5, 3)),
    Case("png/encoded grey", ("EncodePng",), png_again(4, 5, 1)),
    Case("png/encoded 16 bits", ("EncodePng",), png_again(3, 2, 1, dtype=np.uint16)),
    Case("png/no picture", (), lambda tf: tf.image.decode_png("nothing"), fails="run",
         match="Invalid"),
    Case("jpeg/decoded", ("DecodeJpeg",),
         lambda tf: [tf.image.decode_jpeg(c, dct_method="INTEGER_ACCURATE")
                     for c in (JPEG, GREY_JPEG)]),
    Case("jpeg/grey from colours", ("DecodeJpeg",),
         lambda tf: tf.image.decode_jpeg(JPEG, 1, dct_method="INTEGER_ACCURATE")),
    Case("jpeg/smaller", ("DecodeJpeg",), lambda tf: tf.shape(tf.image.decode_jpeg(JPEG, ratio=2))),
    Case("jpeg/fed", ("DecodeJpeg",),
         lambda tf: tf.shape(tf.image.decode_jpeg(tf.placeholder(tf.string, [], "c"))),
         {"c:0": JPEG}),
    Case("jpeg/encoded", ("EncodeJpeg", "ExtractJpegShape"), jpeg_length),
    Case("jpeg/encoded grey", ("EncodeJpeg",),
         lambda tf: tf.image.extract_jpeg_shape(
             tf.image.encode_jpeg(COLOURS[:, :, :1]), output_type=tf.int64)),
    Case("jpeg/of a placeholder", ("EncodeJpeg", "ExtractJpegShape"),
         lambda tf: tf.image.extract_jpeg_shape(tf.image.encode_jpeg(
             tf.placeholder(tf.uint8, [None, None, 3], "p"), "rgb", 80)),
         {"p:0": COLOURS}),
    Case("jpeg/shape of a placeholder", ("ExtractJpegShape",),
         lambda tf: tf.image.extract_jpeg_shape(tf.placeholder(tf.string, [], "c")),
         {"c:0": JPEG}),
    Case("bmp/decoded", ("DecodeBmp",), lambda tf: tf.image.decode_bmp(BMP)),
    Case("bmp/fed", ("DecodeBmp",),
         lambda tf: tf.image.decode_bmp(tf.placeholder(tf.string, [], "c"), 3), {"c:0": BMP}),
    Case("gif/frames", ("DecodeGif",), lambda tf: tf.image.decode_gif(GIF)),
    Case("gif/fed", ("DecodeGif",),
         lambda tf: tf.image.decode_gif(tf.placeholder(tf.string, [], "c")), {"c:0": GIF}),
    Case("image/any", ("DecodeImage",),
         lambda tf: [tf.image.decode_image(c) for c in (PNG, BMP, GIF)]),
    Case("image/as floats", ("DecodeImage",),
         lambda tf: tf.image.decode_image(PNG, dtype=tf.float32)),
    Case("image/one frame", ("DecodeImage",),
         lambda tf: tf.image.decode_image(GIF, 3, expand_animations=False)),
    Case("image/fed", ("DecodeImage",),
         lambda tf: tf.image.decode_image(tf.placeholder(tf.string, [], "c"), dtype=tf.uint16),
         {"c:0": DEEP}),
]  # fmt: skip
