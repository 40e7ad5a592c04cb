"""The names of flags on the command line."""


def flag_of(name: str) -> str:
    """``max_update`` -> ``--max-update``"""
    return "--" + name.replace("_", "-")
