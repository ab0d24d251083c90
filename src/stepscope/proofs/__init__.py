"""Findings of `stepscope advise`, proved: the recorded graph with the change, against as it was.

    recorded_step   what a recording has of a step: graph, feeds, fetches, variables
    made_values     values for what was fed, of which only types and shapes were recorded
    rewriting       the step with the change
    trial           a step that can be run
    proof           old and new in turns, and what came of the prediction

The embedded engine runs both. A finding that cannot be proved says why.

>>> import tempfile
>>> prove(tempfile.mkdtemp())
Traceback (most recent call last):
    ...
stepscope.errors.UnreadableFileError: ...
"""

from stepscope.proofs.proof import Proof, Proofs, proof_of, prove

__all__ = ["Proof", "Proofs", "proof_of", "prove"]
