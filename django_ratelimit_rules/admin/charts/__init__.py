"""Pictures of numbers, as SVG with a table beside it, and the numbers that they show."""
