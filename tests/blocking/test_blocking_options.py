from __future__ import annotations

import pytest

import actorlib.blocking as ray
from actorlib.blocking import exceptions as named
from actorlib.blocking._options import checked_init
from actorlib.exceptions import InitError


def test_option_when_unknown_then_refused_by_name() -> None:
    with pytest.raises(RuntimeError, match=r"no option 'num_gpu'.*'num_gpus'") as seen:
        checked_init({"num_gpu": 1})
    assert "help(actorlib.types.RuntimeOptions)" in str(seen.value)
    assert isinstance(seen.value, ValueError)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"local_mode": True}, InitError, "engine='inline'"),
        ({"address": "auto"}, InitError, "leave address out"),
        ({"address": "ray://head:10001"}, InitError, "one machine"),
        ({"address": "service", "num_cpus": 2}, InitError, "leave out num_cpus"),
        ({"address": "service", "engine": "inline"}, InitError, "leave out engine"),
        ({"enable_resource_isolation": True}, InitError, "cgroups"),
        ({"system_reserved_cpu": 1}, InitError, "num_cpus"),
        ({"logging_level": 1.5}, TypeError, "logging_level"),
        ({"ignore_reinit_error": "yes"}, TypeError, "ignore_reinit_error"),
        ({"reinit": 1}, TypeError, "reinit"),
        ({"address": 1}, TypeError, "address"),
    ],
)
def test_option_when_it_is_not_accepted_then_the_error_says_what_to_do(
    given: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        checked_init(given)


def test_options_when_rays_then_told_apart_from_ours() -> None:
    told = checked_init(
        {
            "address": "local",
            "num_cpus": 2,
            "namespace": None,
            "local_mode": False,
            "include_dashboard": False,
            "dashboard_host": "0.0.0.0",  # one of Ray's
            "_temp_dir": "/elsewhere",
            "ignore_reinit_error": True,
            "logging_level": "WARNING",
            "runtime_env": {"env_vars": {"A": "1"}},
        }
    )
    env = {"env_vars": {"A": "1"}}
    assert told.options == {"num_cpus": 2, "runtime_env": env}
    assert told.logging_level == "WARNING"
    assert told.ignores_second
    assert told.ignored == ["_temp_dir", "dashboard_host"]


def test_device_memory_when_declared_then_actors_are_given_bytes_of_it() -> None:
    declared = {"GPU": "24GiB"}
    with ray.init(num_cpus=1, num_gpus=1, device_memory=declared, engine="inline"):

        @ray.remote(gpu_memory="6GiB")
        class Model:
            def share(self) -> object:
                context = ray.get_runtime_context()
                return ray.get_gpu_ids(), context.get_assigned_resources()

        assert ray.get(Model.remote().share.remote()) == ([0], {"GPU": 0.25})


def test_reinit_when_a_runtime_runs_then_it_is_ended_and_another_starts() -> None:
    ray.init(num_cpus=1, engine="inline", reinit=True)  # none runs
    with ray.init(num_cpus=3, engine="inline", reinit=True):
        assert ray.cluster_resources()["CPU"] == 3
        with pytest.raises(ValueError, match="write one of the two"):
            ray.init(reinit=True, ignore_reinit_error=True)
        assert ray.cluster_resources()["CPU"] == 3
    assert not ray.is_initialized()


NAMES = (
    "RayError RayTaskError RayActorError ActorDiedError ActorUnavailableError "
    "WorkerCrashedError GetTimeoutError PendingCallsLimitExceeded TaskCancelledError "
    "ActorUnschedulableError TaskUnschedulableError ActorPlacementGroupRemoved "
    "TaskPlacementGroupRemoved ActorAlreadyExistsError ActorHandleNotFoundError "
    "RuntimeEnvSetupError ObjectLostError ObjectFreedError OwnerDiedError "
    "ObjectReconstructionFailedError ObjectStoreFullError OutOfMemoryError "
    "OutOfDiskError NodeDiedError RaySystemError AsyncioActorExit"
)


def test_errors_when_scripts_catch_them_by_rays_names_then_they_are_there() -> None:
    for name in NAMES.split():
        assert issubclass(getattr(named, name), named.RayError), name


def test_address_when_the_engine_is_rays_then_it_is_passed_on() -> None:
    asked = {"address": "10.0.0.5:6379", "engine": "ray"}

    assert checked_init(asked, is_on_ray=True).options == asked
