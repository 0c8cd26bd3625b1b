"""A Grafana dashboard and Prometheus alert rules for the limiters that exist, based on this app's metrics.

``watched`` lists the limiters. ``promql`` writes the queries. ``grafana`` and ``alerts`` write JSON.
"""
