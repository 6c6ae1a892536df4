"""The manifests of `examples/cluster` are what KubeRay takes, and fit what Maze asks of a cluster."""

import copy
import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
SCHEMA = Draft202012Validator(json.loads((Path(__file__).parent / "kuberay.schema.json").read_text(encoding="utf-8")))
MANIFESTS = sorted((ROOT / "examples" / "cluster").glob("*.yaml"))


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def cluster_of(manifest):
    return manifest["spec"] if manifest["kind"] == "RayCluster" else manifest["spec"]["rayClusterSpec"]


def pods_of(manifest):
    cluster = cluster_of(manifest)
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_is_what_the_operator_takes(path):
    assert [error.message for error in SCHEMA.iter_errors(read(path))] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda spec: spec.update(headGroupSpecs={}), "headGroupSpecs"),
        (lambda spec: spec.update(rayVersion=2.6), "2.6 is not of type 'string'"),
        (lambda spec: spec["headGroupSpec"]["rayStartParams"].update({"num-cpus": 0}), "0 is not of type 'string'"),
        (lambda spec: spec["workerGroupSpecs"][0].pop("groupName"), "'groupName' is a required property"),
        (lambda spec: spec["authOptions"].update(mode="password"), "'password' is not one of"),
    ],
)
def test_a_mistake_in_a_manifest_is_found(change, message):
    manifest = copy.deepcopy(read(ROOT / "examples" / "cluster" / "raycluster.yaml"))
    change(manifest["spec"])
    assert message in " ".join(error.message for error in SCHEMA.iter_errors(manifest))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_all_pods_have_one_image_one_storage_and_memory_for_objects(path):
    manifest = read(path)
    pods = pods_of(manifest)
    assert len({pod["containers"][0]["image"] for pod in pods}) == 1
    for pod in pods:
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounts["/shared"]["persistentVolumeClaim"]["claimName"] == "maze-runs"
        assert mounts["/dev/shm"]["emptyDir"]["medium"] == "Memory"
        resources = pod["containers"][0]["resources"]
        assert resources["requests"] == resources["limits"]
    assert cluster_of(manifest)["authOptions"] == {"mode": "token"}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_machines_are_there_when_a_run_starts_and_ray_is_new_enough(path):
    cluster = cluster_of(read(path))
    assert all(group["minReplicas"] == group["replicas"] for group in cluster["workerGroupSpecs"])
    assert tuple(map(int, cluster["rayVersion"].split("."))) >= (2, 60, 0)


def test_a_job_writes_to_the_storage_that_stays():
    command = read(ROOT / "examples" / "cluster" / "rayjob.yaml")["spec"]["entrypoint"].split()
    assert command[:2] == ["maze", "train"]
    assert command[command.index("--out") + 1].startswith("/shared/")
