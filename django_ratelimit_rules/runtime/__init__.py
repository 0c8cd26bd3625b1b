"""Services of one process for all limiters. Knows neither rules nor requests.

``reset`` lists the state of the process. ``background`` is the daemon thread. ``threads`` runs project code. ``steps``
drives code that is written once for blocking and for async callers. ``clock`` returns the time for rules.
``log_sampling`` limits the number of log lines. ``language`` translates messages.
"""
