"""What is recorded of decisions, and what is made of it.

- ``check_counts`` counts in plain numbers, ``metrics`` shows them to Prometheus, ``log_lines`` write the log.
- ``last_hour``, ``fullest_counters`` and ``exceeding_clients`` are the numbers that the admin shows.
- ``decisions`` keeps explanations of refusals; ``recording`` keeps traffic for replays.
- ``dashboard/`` writes a Grafana dashboard and alert rules.

Results go in. Nothing here decides, or knows how a decision was asked for.
"""
