"""What the site is made with besides MkDocs: ``hooks`` is what mkdocs.yml names.

In reading order: ``pages`` reads a page as its tests and the site do, ``navigation``
finds out which page stands where, ``reference`` writes what is made from the code, and
``docstrings`` mends what mkdocstrings reads of it. ``typecheck`` checks the types in
all documents and examples.
``sequence``, ``devices`` and ``states`` draw pictures from text, on the canvas of
``svg``.
"""
