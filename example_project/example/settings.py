"""Settings of the example site.

The environment may set ``REDIS_URL`` (the store), ``EXAMPLE_DATA`` (the directory of the SQLite file) and ``DEBUG``.
The demo sets the first two.
"""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("EXAMPLE_DATA", BASE_DIR))

SECRET_KEY = "no secret: this site runs on your own machine only"
DEBUG = bool(os.environ.get("DEBUG"))
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_prometheus",
    "django_ratelimit_rules",
    "accounts",
    "pages",
    "pipelines",
    "demo",
]

MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_ratelimit_rules.middleware.RateLimitMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]

ROOT_URLCONF = "example.urls"
WSGI_APPLICATION = "example.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / "db.sqlite3",
        # Several processes serve the site. Reads must not wait for the admin's writes, and a write must not fail
        # because another one is running.
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL", "timeout": 10},
    }
}

CACHES = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"),
        "KEY_PREFIX": "ratelimit_example",
        # Seconds that a request waits for a Redis that hangs.
        "OPTIONS": {"SOCKET_TIMEOUT": 1, "SOCKET_CONNECT_TIMEOUT": 1},
    }
}

TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "home"

# The limiter "site" checks every request. Views name their own limiters with @rate_limited.
RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["site"]

# Rules that are deployed with the code. They have priority over rules of the admin.
RATELIMIT_RULES_FILE = BASE_DIR / "rules.yaml"

# Record all requests, because this site has few. Drafts are replayed against them.
RATELIMIT_RULES_RECORD = 1.0

# A request with this header and value has the property `bypass`. Here the value is public. On a live site, give it
# only to the load balancer and the monitoring.
RATELIMIT_RULES_BYPASS_HEADER = "X-Bypass-Rate-Limits"
RATELIMIT_RULES_BYPASS_VALUE = "open-sesame"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {
        "django_ratelimit_rules": {"handlers": ["console"], "level": "INFO"},
        "django.request": {"handlers": ["console"], "level": "ERROR"},
    },
}
