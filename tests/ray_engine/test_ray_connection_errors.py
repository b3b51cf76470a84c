"""What Ray says of a connection that fails, in words of use; Ray is not needed."""

from __future__ import annotations

import pytest

from actorlib._ray.errors import connection_error, is_transient

CLIENT = "ray://10.0.0.5:10001"


@pytest.mark.parametrize(
    ("address", "said", "expected"),
    [
        (
            "10.0.0.5:6379",
            "Version mismatch: The cluster was started with:\n    Ray: 2.50.0\n"
            "    Python: 3.12.1",
            "ray==2.50.0",
        ),
        ("auto", "Could not find any running Ray instance.", "ray start --head"),
        ("10.0.0.5:6379", "refused", "no cluster answers at '10.0.0.5:6379'"),
        ("10.0.0.5:6379", "InvalidAuthToken: authentication", "RAY_AUTH_TOKEN"),
        (None, "no space left", "could not be started on this machine"),
        (CLIENT, "Ray Client requires pip package", "pip install 'actorlib[ray]'"),
        (CLIENT, "No module named 'actorlib'", "install it on every machine there"),
        (CLIENT, "ray client connection timeout", "port 10001"),
    ],
)
def test_cluster_when_it_cannot_be_had_then_the_error_says_what_to_write(
    address: str | None, said: str, expected: str
) -> None:
    error = connection_error(address, said, "2.60.0", "3.11.7")

    assert isinstance(error, ConnectionError)
    assert expected in str(error)


@pytest.mark.parametrize(
    ("said", "tries"),
    [
        (
            "Initialization failure from server:\nTraceback (most recent call last):\n"
            "RuntimeError: Starting Ray client server failed. See "
            "ray_client_server_23000.err for detailed logs.",
            "again",
        ),
        ("ray client connection timeout", "once"),
        ("No module named 'actorlib'", "once"),
    ],
)
def test_connection_when_the_server_of_this_client_died_then_it_is_tried_again(
    said: str, tries: str
) -> None:
    assert is_transient(ConnectionAbortedError(said)) is (tries == "again")
