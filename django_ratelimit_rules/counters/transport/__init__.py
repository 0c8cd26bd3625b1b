"""Connections to Redis: the app sends commands over connections of its own, and returns the replies.

- ``blocking`` serves threads. ``pipelined`` and ``async_pool`` serve event loops.
- ``breaker`` keeps calls from waiting for a failing server.
- ``cluster``, ``topology`` and ``slots`` find the right server of a Redis Cluster.

This room knows no counters.
"""
