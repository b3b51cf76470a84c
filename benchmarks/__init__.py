"""How fast actorlib is, beside what the machine can do and what others do on it.

Each question is a file; they run in this order:

======================  ==========================================================
file                    the question that it answers
======================  ==========================================================
*Making actors*
``placement``           How many actors a second come to their first answers?
``first_answer``        How long does one take in a runtime that has nothing to do?
``many_actors``         Is the thousandth actor placed as fast as the first?
``enforcement``         What does it cost that shares are made to hold?
``whole_program``       How long does a program take, from import to clean end?
``idle``                What do actors cost that have nothing to do?
*Calling them*
``calls``               How long does a call take, and how many a second are there?
``engines``             What changes when a program moves to a cluster?
``scaling``             Do calls a second grow with actors and cores?
``actor_to_actor``      How long does a call of one actor by another take?
``clients``             How long does a call of a client of the runtime take?
``batches``             How many calls a second are there in one map?
``tasks``               The same as ``calls``, of functions.
``observing``           What does it cost to observe calls?
``streams``             How many items of a generator come to a reader a second?
*Sending large values*
``payload``             How fast do large arrays go to an actor, and come back?
``sharing``             What does one array for eight actors take?
*Failures and limits*
``deaths``              How soon are all who wait told that an actor is dead?
``ledger``              How many placement decisions a second does one core make?
``growth``              How does the owner's bookkeeping grow, up to a million?
``churn``               What is left of ten thousand actors?
======================  ==========================================================

``python -m benchmarks`` runs all, or those that are named, and shows one table;
``python -m benchmarks.calls`` runs one. ``--quick`` asks less, ``--peers ray,stdlib``
says who is measured beside actorlib, ``--json`` prints JSON alone, ``--out`` says where
JSON, tables and plots are kept.

``python -m benchmarks compare OLD NEW`` measures two versions of actorlib in turns, for
each row of docs/explanation/benchmarks.md and more. It prints the ratio of their costs.

A file holds its plan (jobs, rows, targets), then everybody who is measured for it
(actorlib, the floors, the peers), each a function ``measure_NAME`` that runs in an
interpreter of its own: ``python -m benchmarks.calls --subject ray JSON``. A floor is
the least program that does the same work without actorlib. It is measured again in
every run, because only ratios within one run mean something.

What they share, in reading order:

* ``_cases``: what a benchmark asks: rows, targets, parts of a plot, and jobs;
* ``_subject``: arguments in, figures out, and what all who are measured count alike;
* ``_traffic``: calls, one after another and in windows; ``_decisions``: placement
  decisions;
* ``_ray``, ``_xoscar``, ``_distributed``: a cluster of each peer, with an end, and
  which of its ways is measured;
* ``_memory``: memory, touched before anything is timed;
* ``_processes``: where processes run, what they use, and whether they are gone;
* ``_bare_echo``, ``_bare_template``: the other halves of the floors of calls and of
  placement, each a program of its own;
* ``_jobs``: measurements, one after another, in rounds, so that a disturbance of the
  machine meets all subjects alike;
* ``_leftovers``: what a subject leaves running is ended;
* ``_figures``: what was measured: medians, ratios, verdicts;
* ``_peers``: who of the others is asked for, and who is there;
* ``_run``: a whole benchmark, with its bar;
* ``_command``: options, and the order of the work;
* ``_machine``: what the figures were measured on;
* ``_table``, ``_markdown``, ``_curve``: how they are shown in text;
* ``_colours``, ``_plot``, ``_overview``: how they are drawn;
* ``_folder``: where they are kept;
* ``_compare``: two versions in turns; ``_compared``: its subjects, with the CPU time of
  each process; ``_intervals``: ratios and how sure they are; ``_quiet``: how much of
  the machine other programs use.
"""
