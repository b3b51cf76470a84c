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
* ``engines``: what changes when a program moves to a cluster;
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

Each question is one file: its plan, then everybody who is measured for it (actorlib,
the floors, the peers), each a function ``measure_NAME`` that runs in an interpreter of
its own: ``python -m benchmarks.calls --subject ray JSON``.

What they share, in reading order:

* ``_cases``: what a benchmark asks: rows, targets, parts of a plot, and jobs;
* ``_subject``: arguments in, figures out, and what all who are measured count alike;
* ``_traffic``: calls, one after another and in windows; ``_decisions``: placement
  decisions;
* ``_ray``, ``_xoscar``, ``_distributed``: a cluster of each peer, with an end, and
  which of its ways is measured;
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
* ``_folder``: where they are kept.

A floor is the least program that does the same work without actorlib. It is measured
again in every run, because only ratios within one run mean something.
"""
