"""Who may ask the page's server: by the token, the host and the origin."""

from __future__ import annotations

import pytest

from actorlib._web.address import WebAddress

pytest.importorskip("starlette")

from actorlib._web.guard import Admission

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
