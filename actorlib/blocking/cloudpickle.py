"""``ray.cloudpickle``: the pickler that carries functions, classes and values."""

from cloudpickle import *  # type: ignore[import-untyped]  # noqa: F403  # pyright: ignore[reportMissingTypeStubs, reportWildcardImportFromLibrary]  # it ships none
