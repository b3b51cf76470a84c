"""How fast actorlib is, beside what the machine can do and what others do on it.

``python -m benchmarks`` runs all, or those that are named, and shows one table;
each asks one question and is run by itself, too: ``python -m benchmarks.calls``.
``--quick`` asks less, ``--peers ray,stdlib`` says who is measured beside actorlib,
``--json`` prints JSON alone, ``--out`` says where JSON, tables and plots are kept.

The questions, in the order of running:

* ``placement``: how many actors a second come to their first answers;
* ``first``: how long one takes in a runtime that has nothing to do;
* ``crowd``: whether the thousandth is placed as fast as the first;
* ``whole``: how long a whole program takes;
* ``idle``: what actors cost that have nothing to do;
* ``calls``: how long a call takes and how many a second there can be;
* ``fan``: whether several actors, and actors that call actors, scale with the cores;
* ``between``: how long a call of one actor by another takes;
* ``batches``: many calls of one method, all at once;
* ``tasks``: calls of functions;
* ``streams``: items of a generator;
* ``payload``: large arrays, there and back;
* ``sharing``: one array for many actors;
* ``deaths``: how soon all who wait are told that an actor is dead;
* ``growth``: how the owner's bookkeeping grows, up to a million of what there is;
* ``ledger``: how many placement decisions a second there can be, from 10 devices to
  100,000;
* ``churn``: what is left of ten thousand actors, and how many there can be at once.

What they share, in reading order:

* ``_cases``: what a benchmark asks: rows, targets, parts of a plot;
* ``_traffic``: what is told of calls;
* ``_jobs``: measurements, each in an interpreter of its own, one after another, in
  rounds, so that a disturbance of the machine meets all subjects alike;
* ``_leftovers``: what a subject leaves running is ended;
* ``_figures``: what was measured: medians, ratios, verdicts;
* ``_peers``: who of the others is asked for, and who is there;
* ``_run``: a whole benchmark, with its bar;
* ``_command``: options, and the order of the work;
* ``_machine``: what the figures were measured on;
* ``_table``, ``_markdown``, ``_curve``: how they are shown in text;
* ``_colours``, ``_plot``, ``_overview``: how they are drawn;
* ``_folder``: where they are kept;
* ``subjects``: what is measured: actorlib, the floors, the peers.

A floor is the least program that does the same work without actorlib. It is measured
again in every run, because only ratios within one run mean something.
"""
