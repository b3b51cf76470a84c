"""The host and port of a page."""

from __future__ import annotations

from typing import Final, NamedTuple

LOCALHOST: Final = "localhost"
_LARGEST = 65535


class WebAddress(NamedTuple):
    """A host without brackets, and a port; 0 is one that the system chooses."""

    host: str
    port: int

    def __str__(self) -> str:
        return (
            f"[{self.host}]:{self.port}"
            if ":" in self.host
            else ":".join((self.host, str(self.port)))
        )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect to it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address; of names only ``localhost`` is one."""
    if host.lower() == LOCALHOST:
        return True
    from ipaddress import ip_address  # noqa: PLC0415  # few need it

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def web_address(name: str, text: object) -> WebAddress:
    """Parses the host and port of a page.

    Args:
        name: The name of the option, for messages.
        text: ``"127.0.0.1:8265"``, ``"localhost:0"``, ``"[::1]:0"``.

    Raises:
        TypeError: It is not a string.
        ValueError: It is not a host and a port.
    """
    if not isinstance(text, str):
        raise TypeError(
            f"{name} takes a host and a port, for example '127.0.0.1:0', not {text!r} "
            f"({type(text).__name__})"
        )
    host, colon, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if is_bracketed else host
    is_port = port.isascii() and port.isdecimal() and int(port) <= _LARGEST
    if not colon or not bare or not is_port or (":" in bare) is not is_bracketed:
        raise ValueError(
            f"{name} takes a host and a port from 0 to {_LARGEST}, for example "
            f"'127.0.0.1:0' (a free port), 'localhost:8265' or '[::1]:0', not {text!r}"
        )
    return WebAddress(bare, int(port))
