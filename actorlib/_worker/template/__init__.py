"""The process that forks workers and cleans up after everyone.

In reading order:

* ``forkserver``: the template: forks workers, and cleans up after everyone.
* ``prefork``: workers that are forked before somebody asks for them.
* ``demand``: says how many of them, by what was asked for lately.
* ``preload``: imports what workers need before the template forks, and says whether it
  may still fork then.
* ``shared_numpy``: imports NumPy in the template once a worker has, for later ones.
* ``huge_pages``: makes forks of a template with large preloads cheap.
* ``immortal``: has forks copy less, as they count no references to what they share.
"""
