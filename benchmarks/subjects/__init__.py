"""What is measured: each module is one subject, run in an interpreter of its own.

``python -m benchmarks.subjects.NAME JSON`` takes its arguments as one JSON object and
prints its figures as another, in seconds, bytes and actors or calls a second.

* ``_report``, ``_processes``: what they share: arguments in, figures out; memory;
* ``placement_*``: waves of actors to their first answers. ``_actorlib``; ``_fork`` and
  ``_spawn`` are the floors (``bare_template`` is the other half of the first);
  ``_ray``, ``_pool`` are the peers;
* ``whole_*``: programs that start a library, ask one actor once and end;
  ``whole_process`` takes their time;
* ``calls_*``: calls of one actor, alone and in windows. ``_floor`` is the floor
  (``bare_echo`` is its other half);
* ``between_*``: calls of one actor by another, and of four by four;
* ``tasks_*``: calls of functions, alone and in windows;
* ``ledger_*``: decisions on machines of simulated devices. ``_floor`` is the floor,
  ``_scan`` what one writes first; ``_decisions`` is what they share;
* ``churn_*``: actors made and dropped (``_drop``), alive at once (``_alive``), calls
  that wait for one (``_queue``). ``_growth`` says what is left behind.
"""
