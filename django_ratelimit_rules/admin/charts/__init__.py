"""Pictures of numbers, as SVG followed by a table, and sentences about the same numbers.

``svg`` writes bars, columns and tables. ``sparkline`` uses it for the last hour of a rule.
``last_hour`` and ``divergence`` put numbers into sentences.
"""
