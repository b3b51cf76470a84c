"""Starts the launcher of this machine's workers early.

The template loads about as long as the owner's engine. So its process is started here
before other imports, which then run at the same time.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from actorlib._base.stdio import fill_standard_streams
from actorlib._processes.template_process import (
    FORKING,
    SHARING,
    SPAWNING,
    begin_template,
)

if TYPE_CHECKING:
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._processes.forkserver_launcher import TemplateLauncher


def begin_launcher(options: RuntimeOptions) -> TemplateLauncher:
    """Creates the launcher of worker processes; its template is already loading.

    By default, workers are forked where forking a clean process is safe: on Linux.
    """
    fill_standard_streams()
    default = "template" if sys.platform == "linux" else "spawn"
    preload = options.preload or ()
    # An empty list is explicit: nothing is imported for workers.
    method = FORKING if options.preload == () else SHARING
    if (options.start_method or default) == "spawn":
        method, preload = SPAWNING, ()
    begun = begin_template(method, preload)
    from actorlib._processes.forkserver_launcher import TemplateLauncher  # noqa: PLC0415  # after it
    from actorlib._processes.worker_output import style_of  # noqa: PLC0415  # after it

    loop = asyncio.get_running_loop()
    style = style_of(os.environ, is_shown=options.log_to_driver)
    return TemplateLauncher(
        loop, preload=preload, style=style, method=method, begun=begun
    )
