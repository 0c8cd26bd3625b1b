"""Pictures of numbers, as SVG with a table beside it, and the numbers that they show.

``sparkline`` and ``columns`` draw. ``last_hour`` and ``divergence`` say numbers in sentences.
"""
