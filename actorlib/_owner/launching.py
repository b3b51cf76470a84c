"""Chooses what starts the workers of this machine, and has it begin early.

The template loads about as long as the owner's engine does. So this file imports little
of the owner, and the rest is imported while the template loads.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from actorlib._core.stdio import fill_standard_streams
from actorlib._processes.forkserver_launcher import SpawnLauncher, TemplateLauncher
from actorlib._processes.worker_output import style_of

if TYPE_CHECKING:
    from actorlib._core.runtime_options import RuntimeOptions


def begin_launcher(options: RuntimeOptions) -> TemplateLauncher:
    """Makes what starts workers as processes; its template is loading by then.

    It takes the template where forking a clean process is safe: on Linux.

    Args:
        options: How workers are started, and how what they print is shown.
    """
    fill_standard_streams()
    loop = asyncio.get_running_loop()
    style = style_of(os.environ, is_shown=options.log_to_driver)
    default = "template" if sys.platform == "linux" else "spawn"
    launcher = (
        SpawnLauncher(loop, style=style)
        if (options.start_method or default) == "spawn"
        else TemplateLauncher(loop, preload=options.preload, style=style)
    )
    launcher.begin()
    return launcher
