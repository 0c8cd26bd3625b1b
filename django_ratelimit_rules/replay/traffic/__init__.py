"""Recorded traffic: files of several formats go in, batches of calls in the order of their times come out.

- ``formats`` chooses the reader: ``access_log`` with ``timestamps``, or ``json_lines``.
- ``batches`` puts calls into the order of their times.
"""
