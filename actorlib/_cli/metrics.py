"""Prints the metrics of a runtime: ``actorlib metrics``."""

from __future__ import annotations

import json

from actorlib._cli.pages import console
from actorlib._queries.client import ask_loop, the_runtime


def show(*, as_json: bool, pid: int | None = None) -> None:
    """Prints the metrics in Prometheus' text format, or as one JSON document.

    The document has a list of metrics, each with its ``name``, ``type``, ``help`` and
    ``samples``: ``{"name", "labels", "value"}``.
    """
    metrics = ask_loop(the_runtime(pid), "metrics", rows=as_json)
    console().out(json.dumps(metrics, indent=2) if as_json else metrics, end="")
