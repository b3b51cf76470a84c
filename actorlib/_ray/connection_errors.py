"""The errors of failed connections to a cluster."""

from __future__ import annotations

import re

from actorlib.exceptions import ClusterError


def connection_error(
    address: str | None, message: str, version: str, python: str
) -> ClusterError:
    """Makes the error of a failed connection, with advice.

    Args:
        address: The address; None for a new cluster.
        message: Ray's message.
        version: Ray's version here.
        python: Python's version here.
    """
    text = " ".join(message.split())
    where = "on this machine" if address is None else f"at {address!r}"
    there = re.search(r"cluster was started with: Ray: (\S+) Python: (\S+)", text)
    if there is not None:
        ray_there, python_there = there.groups()
        return ClusterError(
            f"the cluster {where} runs Ray {ray_there} on Python {python_there}, and "
            f"this process has Ray {version} on Python {python}: "
            f"write pip install 'ray=={ray_there}' here, under Python {python_there}, "
            "or start the cluster again with the versions of this process"
        )
    if "uthenticat" in text or "token" in text.lower():
        return ClusterError(
            f"the cluster {where} does not let this process in: {text}. Copy the "
            "cluster's token to RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH here, with "
            "RAY_AUTH_MODE=token"
        )
    if address == "auto":
        return ClusterError(
            "address='auto' found no cluster on this machine: start one with 'ray "
            "start --head', write its address (address='10.0.0.5:6379'), or leave "
            f"address out to start one for this program. Ray says: {text}"
        )
    if address is None:
        return ClusterError(f"Ray could not be started on this machine: {text}")
    if address.startswith("ray://"):
        return _client_error(where, text)
    return ClusterError(
        f"no cluster answers {where}: {text}. Write the address that 'ray start "
        "--head' has printed there (address='10.0.0.5:6379'), or address='auto' on one "
        "of its machines"
    )


def is_transient(error: Exception) -> bool:
    """Whether another attempt to connect may succeed.

    A client server forks a process for each client while its own threads run, and one
    in four of those processes died at once (Ray 2.60; none if the cluster was started
    with GRPC_ENABLE_FORK_SUPPORT=false).
    """
    return "Starting Ray client server failed" in str(error)


def _client_error(where: str, text: str) -> ClusterError:
    if "requires pip package" in text:
        return ClusterError(
            "'ray://' addresses need Ray's client, which is not installed here: pip "
            "install 'actorlib[ray]'"
        )
    if "No module named 'actorlib" in text:
        return ClusterError(
            f"the cluster {where} has no actorlib: install it on every machine there, "
            "for the Python that Ray was started with"
        )
    return ClusterError(
        f"no client server answers {where}: {text}. 'ray start --head' starts one on "
        "port 10001 of its machine, where --ray-client-server-port does not say "
        "another; on a machine of the cluster write address='auto' instead"
    )
