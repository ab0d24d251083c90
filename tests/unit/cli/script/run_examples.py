"""Runs TensorFlow 1 programs one after the other in this process, each as `__main__`.

`stepscope run ... run_examples.py OUTPUT_DIRECTORY PROGRAM...`: what PROGRAM printed goes to
OUTPUT_DIRECTORY/PROGRAM.txt, and how it ended is its last line.
"""

import contextlib
import io
import pathlib
import runpy
import sys
import traceback

import tensorflow as tf

ARGUMENTS = {
    "estimator.py": ["--model_dir={}"],
    "mnist_mlp.py": ["--trace_dir={}"],
    "monitored_training.py": ["--train_dir={}"],
    "summaries.py": ["--log_dir={}"],
}


def run(program, output):
    printed = io.StringIO()
    logs = output / program.stem
    sys.argv = [str(program), *(a.format(logs) for a in ARGUMENTS.get(program.name, []))]
    ended = "ended"
    with contextlib.redirect_stdout(printed):
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as done:
            ended = f"exit {done.code}" if done.code else ended
        except Exception:  # noqa: BLE001
            ended = traceback.format_exc()
    (output / f"{program.stem}.txt").write_text(f"{printed.getvalue()}{ended}\n")


def main():
    output = pathlib.Path(sys.argv[1])
    output.mkdir()
    flags = tf.app.flags.FLAGS
    known = set(flags)
    for program in sys.argv[2:]:
        run(pathlib.Path(program), output)
        tf.reset_default_graph()
        for flag in set(flags) - known:
            delattr(flags, flag)
        flags.unparse_flags()


main()
