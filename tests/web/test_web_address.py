"""Where a page may be served, as users write it."""

from __future__ import annotations

import pytest

import actorlib
from actorlib._web.address import WebAddress, web_address


@pytest.mark.parametrize(
    ("text", "host", "port", "is_loopback"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0, True),
        ("127.1.2.3:8265", "127.1.2.3", 8265, True),
        ("localhost:80", "localhost", 80, True),
        ("[::1]:65535", "::1", 65535, True),
        ("0.0.0.0:8265", "0.0.0.0", 8265, False),
        ("[::]:1", "::", 1, False),
        ("node7:1", "node7", 1, False),
    ],
)
def test_address_when_it_is_one_then_it_is_read_and_written_alike(
    text: str, host: str, port: int, *, is_loopback: bool
) -> None:
    address = web_address("dashboard", text)

    assert address == WebAddress(host, port)
    assert address.is_loopback is is_loopback
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "8265", "localhost", ":80", "::1:80", "a:-1", "a:65536", "a:٣", "[a]:1"],
)
def test_address_when_it_is_none_then_it_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"dashboard takes a host and a port from 0"):
        actorlib.init(dashboard=text)


@pytest.mark.parametrize("value", [True, 8265, ("localhost", 1)])
def test_address_when_it_is_no_text_then_it_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="dashboard takes a host and a port"):
        actorlib.init(dashboard=value)  # type: ignore[arg-type]
