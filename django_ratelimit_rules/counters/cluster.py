"""The old path of the connection factory, which stands in the settings of sites."""

import warnings

from .transport.cluster import ClusterConnectionFactory

__all__ = ["ClusterConnectionFactory"]

warnings.warn(
    f"{__name__} has moved: import from {ClusterConnectionFactory.__module__}. This path goes in 1.2.",
    DeprecationWarning,
    stacklevel=2,
)
