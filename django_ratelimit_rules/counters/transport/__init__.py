"""How Redis is spoken to: commands go out over connections of this app's own, replies come back.

- ``blocking`` serves threads; ``pipelined`` and ``async_pool`` serve event loops; ``breaker`` spares a failing server.
- ``cluster``, ``topology`` and ``slots`` find the right server of a Redis Cluster.

Nothing here knows counters.
"""
