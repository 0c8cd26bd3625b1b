"""Settings of the benchmarks, for this app and for its peers, all on one Redis and one django-redis alias.

``BENCHMARK_DATABASE`` names a migrated SQLite file. ``BENCHMARK_SITE`` names the contestant of the served site, whose
middleware is added if it has one.
"""

import os
from urllib.parse import urlsplit

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS, REDIS_URL

DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("BENCHMARK_DATABASE", ":memory:")}
}
INSTALLED_APPS = [*INSTALLED_APPS]
ROOT_URLCONF = "tests.benchmarks.site"
# Log as on a real site, but without output.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"nowhere": {"class": "logging.FileHandler", "filename": os.devnull}},
    "root": {"handlers": ["nowhere"], "level": "WARNING"},
}
# The site has one proxy, and all contestants trust it.
RATELIMIT_RULES_PROXY_HOPS = 1

# django-ratelimit, and django-smart-ratelimit, whose settings have the same prefix
RATELIMIT_IP_META_KEY = "HTTP_X_FORWARDED_FOR"
RATELIMIT_BACKEND = "redis"
# Don't use a URL, because its asynchronous backend fails with it.
RATELIMIT_REDIS = {"host": "127.0.0.1", "port": urlsplit(REDIS_URL).port, "db": 0, "max_connections": 1000}
RATELIMIT_ALGORITHM = "fixed_window"
RATELIMIT_TRUSTED_PROXIES = ["127.0.0.1"]

# Django REST framework: no authentication, so no user is loaded
REST_FRAMEWORK = {"NUM_PROXIES": 1, "DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None}

# django-trafficwatch: its Redis backend with one round trip
TRAFFICWATCH = {
    "BACKEND": "redis",
    "HEADERS_STYLE": "ietf",
    "TRUSTED_PROXIES": ["127.0.0.1"],
    "MAX_REQUESTS": 500_000,
    "PATH_RULES": {
        "/": [
            {"NAME": "per_minute", "WINDOW_SECONDS": 60, "MAX_REQUESTS": 500_000},
            {"NAME": "per_hour", "WINDOW_SECONDS": 3600, "MAX_REQUESTS": 500_000},
        ]
    },
}
MIDDLEWARE = (
    ["django_trafficwatch.middleware.TrafficWatchMiddleware"]
    if os.environ.get("BENCHMARK_SITE") == "trafficwatch"
    else []
)
