"""What one process needs whatever it limits. Knows neither rules nor requests.

``reset`` lists the state of the process; ``background`` is the daemon thread; ``threads`` runs project code; ``clock``
returns the time that rules go by; ``log_sampling`` thins out log lines; ``language`` translates.
"""
