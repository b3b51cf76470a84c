"""Measures actorlib, the limits of the machine, and other libraries.

Each file answers one question; they run in this order:

======================  ==========================================================
file                    the question that it answers
======================  ==========================================================
*Making actors*
``placement``           How many actors a second come to their first answers?
``first_answer``        How long does one actor take in an idle runtime?
``many_actors``         Is the thousandth actor placed as fast as the first?
``enforcement``         What do enforced shares cost?
``whole_program``       How long does a program take, from import to clean end?
``idle``                What do idle actors cost?
*Calling them*
``calls``               How long does a call take, and how many a second are there?
``engines``             What changes when a program moves to a cluster?
``scaling``             Do calls a second grow with actors and cores?
``actor_to_actor``      How long does a call of one actor by another take?
``clients``             How long does a call of a client of the runtime take?
``batches``             How many calls a second are there in one map?
``tasks``               How long does a call of a function take?
``observing``           What does it cost to observe calls?
``streams``             How many items of a generator come to a reader a second?
*Sending large values*
``payload``             How fast do large arrays go to an actor, and come back?
``sharing``             What does one array for eight actors take?
*Failures and limits*
``deaths``              When do all callers of a dead actor have an error?
``ledger``              How many placement decisions a second does one core make?
``growth``              How does the owner's bookkeeping grow, up to a million?
``churn``               Do ten thousand actors leak memory?
======================  ==========================================================

``python -m benchmarks`` runs all, or the named ones, and shows one table;
``python -m benchmarks.calls`` runs one. ``--quick`` measures less, ``--peers`` chooses
the peers (``ray,stdlib``), ``--json`` prints JSON only, and ``--out`` is the folder for
JSON, tables and plots.

``python -m benchmarks compare OLD NEW`` measures two versions of actorlib in turns, for
each row of docs/explanation/benchmarks.md and more. It prints the ratio of their costs.

A file has its plan (jobs, rows, targets), then its subjects (actorlib, the floors, the
peers), each a function ``measure_NAME`` that runs in its own interpreter:
``python -m benchmarks.calls --subject ray JSON``. A floor is the smallest program that
does the same work without actorlib. It is measured again in every run, because only
ratios within one run are meaningful.

Shared modules, in reading order:

* ``_cases``: the plan of a benchmark: rows, targets, parts of a plot, and jobs;
* ``_subject``: arguments, figures, and counts of all subjects;
* ``_traffic``: calls, one after another and in windows; ``_decisions``: placement
  decisions;
* ``_ray``, ``_xoscar``, ``_distributed``: a cluster of each peer that ends, and the
  way in which it is measured;
* ``_memory``: touches memory before the measurements;
* ``_processes``: CPUs, use of resources and end of other processes;
* ``_bare_echo``, ``_bare_template``: the other halves of the floors of calls and of
  placement, each a program of its own;
* ``_jobs``: measurements, one after another, in rounds, so that a disturbance of the
  machine meets all subjects alike;
* ``_leftovers``: ends processes that a subject has left running;
* ``_figures``: medians, ratios, verdicts;
* ``_peers``: the requested and the installed peers;
* ``_run``: runs a whole benchmark, with a progress bar;
* ``_command``: options, and the order of the work;
* ``_machine``: the machine and the versions;
* ``_table``, ``_markdown``, ``_curve``: results as text;
* ``_colours``, ``_plot``, ``_overview``: results as pictures;
* ``_folder``: writes the results;
* ``_compare``: two versions in turns; ``_compared``: its subjects, with the CPU time of
  each process; ``_intervals``: ratios with intervals; ``_quiet``: the load by
  other programs.
"""
