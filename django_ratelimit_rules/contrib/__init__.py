"""Throttles for API frameworks: each module imports its framework, and nothing imports these modules."""
