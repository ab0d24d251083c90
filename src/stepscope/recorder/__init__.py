"""What to record, how much of it, and what to keep: a budget, triggers, bounds.

A map: `controller` joins the decisions, which are plain states without threads or clocks: `budget`
(how much of the next run is recorded), `triggers` (what the user wants to know of), `keeping`
(which runs are written, and which have to go).
"""
