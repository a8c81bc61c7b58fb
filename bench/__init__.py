"""Benchmarks: every figure beside a floor or a peer that was measured in the same run, in turns.

    python -m bench                       # all of them; the table, and JSON with every sample in bench/results
    python -m bench append scan --quick   # some, with small counts
    python -m bench append --json -       # JSON on standard output, the table on standard error

A benchmark is a function that yields cases. A case has two sides: ours, and what it is held against. `rounds.measure` runs them in turns.
"""
