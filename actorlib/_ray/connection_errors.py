"""Says why a program could not be connected to a cluster, and what to write instead."""

from __future__ import annotations

import re

from actorlib.exceptions import ClusterError


def connection_error(
    address: str | None, said: str, version: str, python: str
) -> ClusterError:
    """Tells a user why there is no connection to a cluster, and what to write.

    Args:
        address: Where; None if a cluster was to be started.
        said: What Ray says.
        version: Ray's version here.
        python: Python's.
    """
    text = " ".join(said.split())
    where = "on this machine" if address is None else f"at {address!r}"
    there = re.search(r"cluster was started with: Ray: (\S+) Python: (\S+)", text)
    if there is not None:
        ray_there, python_there = there.groups()
        return ClusterError(
            f"the cluster {where} runs Ray {ray_there} on Python {python_there}, and "
            f"this process has Ray {version} on Python {python}: "
            f"write pip install 'ray=={ray_there}' here, under Python {python_there}, "
            "or start the cluster anew with the versions of this process"
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
    """Whether the next try to connect may succeed where this one has failed.

    A client server forks a process for each client while threads of its own speak with
    others, and one in four of those died before they said anything (Ray 2.60; none
    where the cluster was started with GRPC_ENABLE_FORK_SUPPORT=false).
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
