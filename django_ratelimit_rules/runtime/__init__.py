"""What one process needs whatever it limits. Knows neither rules nor requests.

``background`` is the daemon thread; ``threads`` runs project code; ``clock`` tells the time of live numbers;
``log_sampling`` thins out log lines; ``language`` translates; ``memo`` remembers what was just made.
"""
