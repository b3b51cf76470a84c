"""How fast actorlib is, beside what the machine can do and what others do on it.

Each benchmark asks one question and is run by itself: ``python -m
benchmarks.placement``, ``python -m benchmarks.calls``, ``python -m
benchmarks.ledger``, ``python -m benchmarks.churn``, ``python -m
benchmarks.tasks``, ``python -m benchmarks.between``; ``--help`` lists the options.
It prints one table and one JSON line and draws one plot.

In reading order:

* ``placement``: how many actors a second come to their first answer, and what an idle
  one costs;
* ``calls``: how long a call takes and how many a second there can be;
* ``between``: the same where one actor calls another;
* ``tasks``: the same for functions;
* ``ledger``: how many placement decisions a second there can be, from 10 devices to
  100,000;
* ``churn``: what is left of ten thousand actors, and how many there can be at once;
* ``_command``: what they share: options, and the order of the work;
* ``_jobs``: measurements, each in an interpreter of its own, one after another, in
  rounds, so that a disturbance of the machine meets all subjects alike;
* ``_cases``: the rows of a table: medians, ratios, targets;
* ``_machine``: what the figures were measured on;
* ``_table``, ``_curve``, ``_plot``: how they are shown;
* ``subjects``: what is measured: actorlib, the floors, the peers.

A floor is the least program that does the same work without actorlib. It is measured
again in every run, because only ratios within one run mean something.
"""
