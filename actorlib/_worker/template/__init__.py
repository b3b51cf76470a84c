"""The template: the process that forks workers and cleans up after them.

In reading order:

* ``forkserver``: serves requests for workers, and reaps processes.
* ``prefork``: forks workers before they are requested.
* ``demand``: decides how many, from recent requests.
* ``preload``: imports modules before the template forks, and checks whether it may
  still fork afterwards.
* ``shared_numpy``: imports NumPy in the template after the first worker has done so.
* ``huge_pages``: makes forks of a template with large preloads cheap.
* ``immortal``: makes forks copy less memory by not counting references to shared
  objects.
"""
