"""What one process needs whatever it limits: its clock, its background thread, threads for project code, log sampling.

Knows neither rules nor requests.
"""
