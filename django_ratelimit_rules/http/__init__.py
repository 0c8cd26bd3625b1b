"""A checkpoint before a view, and its answer.

- ``checkpoint`` asks a limiter about the requests of one view. ``answering`` runs the view, settles and adds headers.
- ``settling`` charges rules that count by the response.
- ``responses`` builds 429 and 503 responses. ``headers`` writes the rate limit headers.
- ``my_limits`` shows limits to one user. ``published_limits`` describes limits for all clients.
"""
