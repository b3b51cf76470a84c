"""Who may ask the page's server: by the token, the host and the origin."""

from __future__ import annotations

import pytest

import actorlib
from actorlib._web.address import WebAddress, web_address
from actorlib._web.guard import Admission

pytest.importorskip("starlette")


TOKEN = "s3cret"
HERE = WebAddress("127.0.0.1", 8265)
EVERYWHERE = WebAddress("0.0.0.0", 8265)
NAMES = frozenset({"node7", "node7.lab"})


def status(
    address: WebAddress = HERE,
    *,
    host: str = "127.0.0.1:8265",
    query: str = f"token={TOKEN}",
    method: str = "GET",
    **headers: str,
) -> int:
    admission = Admission(TOKEN, address, NAMES)
    refusal = admission.refusal(method, query, {"host": host, **headers})
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize(
    "query",
    [
        "",
        "token=",
        "token=wrong",
        "token=s3cret2",
        "Token=s3cret",
        "token=%ff",
        f"token={TOKEN}&token=wrong",
    ],
)
def test_request_when_it_has_not_the_token_alone_then_it_is_refused(query: str) -> None:
    assert status(query=query) == 401


@pytest.mark.parametrize(
    ("address", "expected", "hosts"),
    [
        (HERE, 200, "127.0.0.1:8265 127.0.0.1 localhost:9 LOCALHOST [::1]:8265"),
        (HERE, 421, "evil.example 127.0.0.1.evil.example:8265 node7 10.0.0.7 [::2]"),
        (
            EVERYWHERE,
            200,
            "10.0.0.7:8265 [fe80::1]:8265 node7:8265 Node7.lab.",
        ),
        (EVERYWHERE, 421, "evil.example"),
    ],
)
def test_host_when_it_means_the_machine_of_the_page_then_it_is_served(
    address: WebAddress, expected: int, hosts: str
) -> None:
    assert {host: status(address, host=host) for host in hosts.split()} == (
        dict.fromkeys(hosts.split(), expected)
    )
    assert status(HERE, host="") == 421


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://127.0.0.1:8265", 200),
        ("http://127.0.0.1:9", 403),
        ("https://evil.example", 403),
        ("null", 403),
    ],
)
def test_post_when_another_site_sends_it_then_it_is_refused(
    origin: str, expected: int
) -> None:
    assert status(method="POST", origin=origin) == expected


# The address of a page.


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
