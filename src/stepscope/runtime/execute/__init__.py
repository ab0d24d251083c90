"""Running a plan: inline, on a pool, or with branches and loops; and the record of it."""
