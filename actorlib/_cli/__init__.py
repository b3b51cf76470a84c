"""The commands: ``actorlib demo``, ``actorlib devices`` and others.

In reading order:

* ``demo``: shows placement and speed on this machine in half a minute.
* ``demo_figures``: measures them, with an actor of its own.
* ``devices``: shows the accelerators of this machine, and why others are missing.
* ``doctor``: checks the machine and gives advice.
* ``machine_checks``: the checks.
* ``start_check``: tries to start an actor, in a program of its own.
* ``ps``: shows the runtimes of this user and their actors.
* ``listing``: queries runtimes and returns rows, with their headings.
* ``ps_page``: lays the rows out as tables.
* ``actor_columns``: the columns of actors that fit into a width.
* ``top``: shows the same live, until the user quits.
* ``top_screen``: the state of its screen, changed by keys.
* ``top_figures``: rates and their history, from two samples.
* ``top_page``: lays out its page.
* ``device_meters``: reads the load of devices from NVML.
* ``terminal``: reads keys and signals, and restores the terminal.
* ``calls``: shows the unanswered calls of a runtime.
* ``logs``: shows and follows the output and the log records of actors.
* ``objects``: shows the objects in the object store of a runtime.
* ``metrics``: prints the metrics of a runtime.
* ``one_actor``: explains the placement of an actor, or kills it.
* ``stack``: shows the stacks of an actor, or of the program.
* ``web``: serves the page of a runtime for a browser.
* ``completion``: prints completions for a shell.
* ``completion_scripts``: writes the completion scripts of three shells.
* ``recorded_parser``: describes the options and commands of the command line.
* ``choosing``: finds an actor by a word.
* ``pages``: consoles, documents, times and short ids for all of these.
* ``trace``: records the calls of a program and writes a trace.
* ``cache``: lists and removes cached results of maps.
"""
