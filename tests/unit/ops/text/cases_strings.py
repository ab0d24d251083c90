"""Strings: taken apart, replaced by pattern, measured, and to and from numbers."""

import numpy as np
from op_cases import Case

TEXTS = ["a b  c", "", " d,e; f "]
MIXED = ["Hello", "ÀÉ ß", "", "a\tB\n"]


def fed(*texts):
    return np.array([text.encode() for text in texts], object)


def parts(*tensors):
    return [part for t in tensors for part in (t.indices, t.values, t.dense_shape)]


def of_one(call):
    """The same of a list, a matrix, a scalar, and what is fed."""
    return lambda tf: [
        call(tf, MIXED), call(tf, np.array([MIXED[:2], MIXED[2:]])), call(tf, MIXED[1]),
        call(tf, tf.placeholder(tf.string, [None], "x")),
    ]  # fmt: skip


def one(name, op_types, call):
    return Case(f"strings/{name}", op_types, of_one(call), {"x:0": fed(" fed ", "ÄB")})


def case(name, op_types, build, **options):
    return Case(f"strings/{name}", op_types, build, **options)


def fails(name, build, match, when="run"):
    return Case(f"strings/{name}", (), build, fails=when, match=match)


def replaced(pattern, rewrite, **options):
    texts = ["abcabc", "b", "", "xaby-1", "áb c"]
    return lambda tf: [
        tf.strings.regex_replace(tf.constant(texts), pattern, rewrite, **options),
        tf.regex_replace(tf.placeholder(tf.string, [1, 1], "x"), pattern, rewrite, **options),
    ]


def rewritten(name, pattern, rewrite, **options):
    return case(f"replaced {name}", ("StaticRegexReplace",), replaced(pattern, rewrite, **options),
                feeds={"x:0": [fed("aXb")]})  # fmt: skip


CASES = [
    case("words", ("StringSplit",), lambda tf: parts(
        tf.string_split(TEXTS), tf.string_split(TEXTS, skip_empty=False),
        tf.string_split(["abc", "d"], sep=""), tf.string_split(TEXTS, sep=",; ", name="named"),
        tf.string_split(tf.placeholder(tf.string, [None], "x"), delimiter="-")),
        feeds={"x:0": fed("u-v", "-w")}),
    case("words as Python's", ("StringSplitV2",), lambda tf: parts(
        tf.strings.split(TEXTS), tf.strings.split(["a--b----c", "", "d--"], sep="--"),
        tf.strings.split(["a b c d", " x  y  z "], maxsplit=1), tf.strings.split("a b"),
        tf.strings.split(source=["a-b-c-d"], sep="-", maxsplit=2),
        tf.strings.split(tf.placeholder(tf.string, [None], "x"))),
        feeds={"x:0": fed("u v", "w")}),
    rewritten("letters", "b", "x"), rewritten("groups", "(a)(b)", r"<\2\1\0>\\"),
    rewritten("the first", "[ab]", "-", replace_global=False), rewritten("nothing", "x*", "-"),
    rewritten("characters", ".", "-"), rewritten("classes", r"[[:alpha:]]+|\d", "w"),
    rewritten("words", r"\w+", "W"), rewritten("no such group", "a", r"\3"),
    case("replaced by tensors", ("RegexReplace",), lambda tf: [
        tf.regex_replace(["abcabc", "b"], tf.constant("b"), "x"),
        tf.regex_replace(tf.placeholder(tf.string, name="x"), tf.constant("(a)"), r"\1\1",
                         replace_global=False)], feeds={"x:0": np.array(b"aa", object)}),
    one("length", ("StringLength",), lambda tf, x: tf.strings.length(x)),
    one("characters", ("StringLength",), lambda tf, x: tf.strings.length(x, unit="UTF8_CHAR")),
    one("lower", ("StringLower",), lambda tf, x: tf.strings.lower(x)),
    one("lower of all", ("StringLower",), lambda tf, x: tf.strings.lower(x, encoding="utf-8")),
    one("upper", ("StringUpper",), lambda tf, x: tf.strings.upper(x, name="named")),
    one("upper of letters", ("StringUpper",),
        lambda tf, x: tf.strings.upper(tf.strings.regex_replace(x, "ß", "s"), "utf-8")),
    one("stripped", ("StringStrip",), lambda tf, x: tf.strings.strip(x)),
    case("parts", ("Substr",), lambda tf: [
        tf.substr(["hello", "world"], [1, -3], [2, 2]), tf.strings.substr("hello", -2, -1),
        tf.substr("hello", 5, 2), tf.substr(["a", "bb"], [[0, 0]], [[1, 9]]),
        tf.substr("héllo", np.int64(1), np.int64(2), unit="UTF8_CHAR", name="named"),
        tf.substr(tf.placeholder(tf.string, [None], "x"), 1, 2)],
        feeds={"x:0": fed("abcd", "efg")}),
    case("numbers", ("StringToNumber",), lambda tf: [
        tf.string_to_number(["1.5", "-2e3", " 7 ", "inf", "+.5"]),
        tf.strings.to_number([["15", "-23"]], tf.int64, name="named"),
        tf.string_to_number("7", tf.int32), tf.string_to_number(["0.1", "1e300"], tf.float64),
        tf.string_to_number(tf.placeholder(tf.string, [None], "x"))], feeds={"x:0": fed("3", "4")}),
    case("tensors as text", ("StringFormat",), lambda tf: [
        tf.strings.format("x {} y {}", [tf.range(7), tf.constant("q")]),
        tf.strings.format("{}", tf.constant([[1.5, 2.0], [3.0, 4.0]]), name="named"),
        tf.strings.format("%s", tf.constant(["a", "b"]), placeholder="%s"),
        tf.strings.format("{}{}", [tf.constant(np.arange(40).reshape(2, 4, 5)), tf.constant(True)],
                          summarize=1),
        tf.strings.format("all {}", tf.range(9), summarize=-1),
        tf.strings.format("{}", tf.constant(np.float64([0.1, 1e-10, 3.0]))),
        tf.strings.format("{}", tf.placeholder(tf.float32, name="x"))],
        feeds={"x:0": [[[1.0]], [[2.0]]]}),
    fails("a part out of range", lambda tf: tf.substr("hello", 6, 2), "pos 6 out of range"),
    fails("parts of two ranks", lambda tf: tf.substr("hello", 1, [2, 3]), "rank", "build"),
    fails("no number", lambda tf: tf.string_to_number(["x"]), "could not correctly convert"),
    fails("no number of digits", lambda tf: tf.string_to_number(["1_0"]), "convert string: 1_0"),
    fails("a long number", lambda tf: tf.string_to_number(["99999999999"], tf.int32),
          "convert string: 99999999999"),
    fails("a fraction", lambda tf: tf.string_to_number(["1.5"], tf.int32), "convert string: 1.5"),
    fails("no pattern", lambda tf: tf.regex_replace(["a"], "(", "x"), "Invalid pattern: ("),
    fails("too few tensors", lambda tf: tf.strings.format("{} {}", [tf.constant(1)]),
          "The template expects 2", "build"),
    fails("words of a matrix", lambda tf: tf.string_split([["a"]]), "rank", "build"),
]  # fmt: skip
