"""A checkpoint before a view, and its answer.

- ``checkpoint`` asks a limiter about the requests of one view; ``answering`` puts a bracket around the view.
- ``settling`` settles by the response.
- ``responses`` and ``headers`` answer.
- ``my_limits`` and ``published_limits`` say which limits there are: to one client, and to all.
"""
