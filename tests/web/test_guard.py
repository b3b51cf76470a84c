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
    ["", "token=", "token=wrong", "token=s3cret2", "Token=s3cret", "token=%ff"],
)
def test_request_when_it_has_not_the_token_then_it_is_refused(query: str) -> None:
    assert status(query=query) == 401


def test_request_when_it_has_two_tokens_then_it_is_refused() -> None:
    assert status(query=f"token={TOKEN}&token=wrong") == 401


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8265", "127.0.0.1", "localhost:9", "LOCALHOST", "[::1]:8265"]
)
def test_host_when_it_means_this_machine_then_it_is_served(host: str) -> None:
    assert status(host=host) == 200


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1.evil.example:8265", "node7", "10.0.0.7", "[::2]"],
)
def test_host_when_a_page_of_loopback_is_called_otherwise_then_it_is_refused(
    host: str,
) -> None:
    assert status(host=host) == 421


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.0.0.7:8265", 200),
        ("[fe80::1]:8265", 200),
        ("node7:8265", 200),
        ("Node7.lab.", 200),
        ("localhost:8265", 200),
        ("evil.example", 421),
    ],
)
def test_host_when_the_page_is_for_others_too_then_names_count(
    host: str, expected: int
) -> None:
    assert status(EVERYWHERE, host=host) == expected


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
