import pytest
from pydantic import ValidationError

from headway.serve.settings import ReplicaSettings, ServeSettings, parse_replicas


def test_the_default_fleet_is_unlike() -> None:
    settings = ServeSettings()
    fleet = [(replica.name, replica.version, replica.speed) for replica in settings.fleet]
    assert fleet == [
        ("replica-a", "v1", 1.0),
        ("replica-b", "v1", 0.6),
        ("replica-c", "v2", 1.0),
    ]
    assert settings.shares == {"v1": 0.9, "v2": 0.1}
    assert settings.model_name == "minilm"


def test_a_fleet_of_one_version_gets_all_traffic_on_it() -> None:
    settings = ServeSettings(runtime="simulated", replicas=(ReplicaSettings(name="only"),))
    assert settings.shares == {"v1": 1.0}
    assert settings.model_name == "simulated"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"replicas": [{"name": "a"}, {"name": "a"}]},
            "replicas: several are named a; names are unique",
        ),
        ({"split": {"v1": 0.5, "v9": 0.5}}, "split: no replica has the version v9"),
        ({"split": {"v1": 0.5, "v2": 0.1}}, "split: shares add up to 0.6, not to 1"),
    ],
)
def test_a_fleet_that_contradicts_itself_is_refused(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        ServeSettings.model_validate(values)


def test_the_simulated_fleet_differs_in_speed_only() -> None:
    fleet = ServeSettings(runtime="simulated").fleet
    assert [(replica.version, replica.speed) for replica in fleet] == [
        ("v1", 1.0),
        ("v1", 1.0),
        ("v1", 0.6),
    ]


def test_a_fleet_is_read_from_versions_and_speeds() -> None:
    assert parse_replicas("v1, v2@0.6") == [
        {"name": "replica-a", "version": "v1", "speed": 1.0},
        {"name": "replica-b", "version": "v2", "speed": 0.6},
    ]


@pytest.mark.parametrize("text", ["", "v1,", "v1@fast", ",".join(["v1"] * 27)])
def test_a_malformed_fleet_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (fleet|speed); write"):
        parse_replicas(text)
