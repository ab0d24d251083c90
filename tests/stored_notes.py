"""For scripts under `stepscope run` that are to die once it is known where their time went."""

UNTIL_NOTED = """
def until_noted():
    import time
    from stepscope.errors import UnreadableFileError
    from stepscope.metadata import programs
    from stepscope.metadata.program_notes import IMPORT, PLAN

    while True:
        try:
            [program] = programs("out")
        except UnreadableFileError:  # the store is not begun
            program = None
        if program is not None and program.of(IMPORT) and program.of(PLAN):
            return
        time.sleep(0.01)

"""
"""A function of a script on the embedded engine: waits until its notes are in the store `out`.

Runs that ended are read back wherever a process dies; notes of what was beside them are written
soon, not at once.
"""
