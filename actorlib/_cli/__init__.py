"""The command line: what ``actorlib demo``, ``actorlib devices`` and others show.

In reading order:

* ``demo``: shows placement and speed on this machine in half a minute.
* ``demo_figures``: measures what that shows, with an actor of its own.
* ``devices``: shows every accelerator of this machine, and why not more.
* ``doctor``: examines the machine, and says what to do.
* ``machine_checks``: what it checks: each says what is fine, or wrong and what to do.
* ``start_check``: tries whether an actor can be started, as a program of its own.
* ``ps``: shows the runtimes of this user and what goes on in them.
* ``listing``: asks for that, as rows.
* ``ps_page``: puts it on a page.
* ``actor_columns``: makes columns of actors, as many as there is room for.
* ``runtime_words``: says what a runtime is and has, or where it is stuck.
* ``top``: shows the same live, until the user leaves.
* ``top_screen``: what keys make of its screen, and what that selects.
* ``top_figures``: what two looks tell that one does not, such as calls a second.
* ``top_page``: lays out its page.
* ``device_meters``: asks NVML how busy devices are.
* ``terminal``: takes a terminal over, and gives it back whatever happens.
* ``calls``: shows the calls under way in one of them.
* ``logs``: shows what actors have printed and logged, and follows that.
* ``objects``: shows what the object store of one of them holds, and who that is for.
* ``metrics``: prints the metrics of one of them.
* ``one_actor``: explains where an actor is, or ends it.
* ``stack``: shows where the threads of an actor, or of the program, stand.
* ``web``: shows one of them on a page for a browser.
* ``completion``: prints what completes words in a shell.
* ``completion_scripts``: writes the scripts of three shells.
* ``recorded_parser``: tells which words the command line takes.
* ``choosing``: finds out which actor is meant.
* ``documents``: writes documents for machines.
* ``pages``: makes pages, times and short ids for all these.
* ``trace``: records what a program does for a while, and draws it.
"""
