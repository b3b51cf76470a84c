"""What is measured: each module is one subject, run in an interpreter of its own.

``python -m benchmarks.subjects.NAME JSON`` takes its arguments as one JSON object and
prints its figures as another, in seconds, bytes and actors or calls a second.

* ``_report``, ``_processes``: what all share: arguments in, figures out; memory, CPU;
* ``_ray``, ``_xoscar``, ``_distributed``: a cluster of each peer, with an end, and
  which of its ways is measured;
* ``placement_*``: waves of actors to their first answers. ``_actorlib``; ``_fork`` and
  ``_spawn`` are the floors (``bare_template`` is the other half of the first); the
  others are the peers, here as below;
* ``first_*``, ``crowd_*``: one actor at a time, and a hundred beside many;
* ``whole_*``: programs that start a library, ask one actor once and end;
  ``whole_process`` takes their time;
* ``idle_*``: what actors at rest use; ``_idle`` counts it;
* ``calls_*``: calls of one actor, alone and in windows; ``_calls`` makes them.
  ``_floor`` is the floor (``bare_echo`` is its other half);
* ``fan_*``: windows to several actors, and between actors;
* ``between_*``: calls of one actor by another, and of four by four;
* ``batches_*``: calls that are made at once;
* ``tasks_*``: calls of functions, alone and in windows;
* ``streams_*``: items of generators;
* ``payload_*``, ``sharing_*``: arrays for one actor and for many; ``_payload`` and
  ``_sharing`` send them;
* ``deaths_*``: an actor is killed while many wait; ``_deaths`` kills it;
* ``ledger_*``: decisions on machines of simulated devices. ``_floor`` is the floor,
  ``_scan`` what one writes first; ``_decisions`` is what they share;
* ``churn_*``: actors made and dropped (``_drop``), alive at once (``_alive``), calls
  that wait for one (``_queue``). ``_growth`` says what is left behind.
"""
