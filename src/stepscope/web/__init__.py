"""The viewer: a local server, a report in one file, TensorBoard's plugin. It shapes; it computes
nothing that `stepscope.analysis` does not.

    recordings   the runs behind a page, and what becomes of their files meanwhile
    resources/   what a page asks for, by name
    frames       JSON and arrays of numbers as bytes, the same in all three places
    server       `stepscope view`
    report       `stepscope report`
    plugin       TensorBoard
    page_files   the page itself, which `viewer/` is the source of
"""
