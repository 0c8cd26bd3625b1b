"""Migration from a legacy limiter: both limiters check a call, one decides, and the results are compared.

- ``views`` wraps a view. ``verdicts`` interprets the return value of the legacy limiter.
- ``divergence`` counts the disagreements between the two limiters. ``drafts`` writes the rates of the
  legacy limiter as rules.
"""
