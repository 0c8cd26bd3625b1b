"""The pages that Django's admin does not have, one module each. ``base`` is their base class.

- ``explain`` with ``explain_form``, and ``live``: the present effect of a limiter.
- ``replay`` and ``suggest`` with ``traffic_form``: the effect that rules would have had.
- ``switch``, ``history`` and ``import_export`` change rules, each after a ``confirmation``.
- ``actions`` are the entries that changes make in the history.
"""
