"""What people ask of a pipeline: look, try, step, correct, replay, verify. `desk.py` answers on every surface."""
