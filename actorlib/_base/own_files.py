"""How the paths of our own files begin, whose frames tell a user nothing."""

OWN_FILES = __file__.rpartition("_base")[0]
