"""Running a script unchanged and recording it: what `stepscope run` is made of."""
