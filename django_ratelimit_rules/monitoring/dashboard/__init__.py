"""A Grafana dashboard and Prometheus alert rules for the limiters that exist, made of this app's own metrics.

``watched`` lists the limiters; ``promql`` writes the queries; ``grafana`` and ``alerts`` write JSON.
"""
