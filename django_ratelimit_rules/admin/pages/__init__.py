"""The pages that Django's admin does not have, one module each. ``base`` is what they share.

- ``explain`` with ``explain_form``, and ``live``: what a limiter does now.
- ``replay`` and ``suggest`` with ``traffic_form``: what rules would have done.
- ``switch``, ``history`` and ``import_export`` change rules, each after a ``confirmation``.
"""
