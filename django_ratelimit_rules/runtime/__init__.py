"""What one process needs whatever it limits. Knows neither rules nor requests.

``reset`` lists the state of the process; ``background`` is the daemon thread; ``threads`` runs project code; ``steps``
drives code that is written once for blocking and for async callers; ``clock`` returns the time that rules go by;
``log_sampling`` thins out log lines; ``language`` translates.
"""
