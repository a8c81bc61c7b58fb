"""What people ask of a pipeline: look, try, step, correct, replay, verify. `operations.py` answers on every surface."""
