"""A task queue that asks the limiter: Celery with its broker in a folder, so that nothing else has to run."""

import os

import django
from celery import Celery

django.setup()

from django_redis import get_redis_connection  # noqa: E402

from tests.processes.urls import early, shared  # noqa: E402
from tests.servers import wait_until  # noqa: E402

folder = os.environ["RATELIMIT_TEST_BROKER"]
app = Celery("tasks", broker="filesystem://")
app.conf.broker_transport_options = {"data_folder_in": folder, "data_folder_out": folder, "control_folder": folder}
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True

# As a project may while it is imported: in the parent of the worker's processes.
early.check({})


@app.task
def ask():
    result = shared.check({})
    client = get_redis_connection("default")
    client.hincrby("by", str(os.getpid()), 1)
    # The first process could do it all before the last one has started.
    wait_until(
        lambda: client.hlen("by") == int(os.environ["RATELIMIT_TEST_PROCESSES"]), what="all processes to take part"
    )
    client.hincrby("failed", "error", int(result.error))
    client.hincrby("asked", str(result.action), 1)
