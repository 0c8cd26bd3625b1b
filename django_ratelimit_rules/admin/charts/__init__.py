"""Pictures of numbers, as SVG with a table beside it, and the numbers that they show.

``svg`` writes bars, columns and tables. ``sparkline`` shows an hour of a rule with it.
``last_hour`` and ``divergence`` say numbers in sentences.
"""
