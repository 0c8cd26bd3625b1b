"""Records of decisions: metrics, log lines, the numbers of the admin, explanations and traffic.

- ``check_counts`` counts in plain numbers. ``metrics`` exports them to Prometheus. ``log_lines`` writes the log.
- ``last_hour``, ``fullest_counters`` and ``exceeding_clients`` are the numbers that the admin shows.
- ``decisions`` stores explanations of refusals. ``recording`` stores traffic for replays.
- ``dashboard/`` writes a Grafana dashboard and alert rules.

Results go in. No module here decides, or knows the caller of a check.
"""
