"""Builds the site with MkDocs: mkdocs.yml names ``hooks``.

In reading order: ``pages`` reads a page for its tests and for the site, ``navigation``
puts the pages into an order, ``reference`` writes what is generated from the code, and
``docstrings`` adapts the docstrings that mkdocstrings reads. ``typecheck`` checks the
types in all documents and examples. ``sequence``, ``devices`` and ``states`` draw
pictures from text, on the canvas of ``svg``.
"""
