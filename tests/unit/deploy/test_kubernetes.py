"""The manifests of Kubernetes are complete, refer to each other correctly, and run without permissions."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.deploy.deploy_files import (
    DEPLOY,
    GUIDE,
    KUBERNETES,
    Resource,
    containers,
    load,
    manifests,
    parse,
    pods,
    resource,
)

REQUIRED = {
    "Deployment": ("apps/v1", ["spec.selector.matchLabels", "spec.template.metadata.labels", "spec.template.spec"]),
    "Job": ("batch/v1", ["spec.template.spec.restartPolicy"]),
    "Service": ("v1", ["spec.selector", "spec.ports"]),
    "PodDisruptionBudget": ("policy/v1", ["spec.selector.matchLabels", "spec.maxUnavailable"]),
    "NetworkPolicy": ("networking.k8s.io/v1", ["spec.podSelector.matchLabels", "spec.policyTypes"]),
    "Secret": ("v1", ["stringData"]),
    "ScaledObject": ("keda.sh/v1alpha1", ["spec.scaleTargetRef.name", "spec.triggers", "spec.maxReplicaCount"]),
    "PodMonitor": ("monitoring.coreos.com/v1", ["spec.selector", "spec.podMetricsEndpoints"]),
    "PrometheusRule": ("monitoring.coreos.com/v1", ["spec.groups"]),
}
"""The API version and the required fields of each kind."""
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
DEPLOYMENTS = ["statewright-server", "statewright-worker"]
USER = 10001
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def field(item: Any, path: str) -> Any:
    """Return the value at a path such as `spec.ports`; None if there is none."""
    for key in path.split("."):
        item = item.get(key) if isinstance(item, Mapping) else None
    return item


def labels_of(deployment: str) -> Mapping[str, str]:
    return field(resource("Deployment", deployment), "spec.template.metadata.labels")


def kustomizations() -> Iterator[tuple[Path, Resource]]:
    for path in sorted(DEPLOY.rglob("kustomization.yaml")):
        (document,) = load(path)
        yield path, document


def is_selected(labels: Mapping[str, str], selector: Mapping[str, Any]) -> bool:
    assert selector.keys() == {"matchLabels"}
    return selector["matchLabels"].items() <= labels.items()


def build(folder: Path) -> Sequence[Resource]:
    """Return the resources that kustomize builds from a folder."""
    command = ["kubectl", "kustomize", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


# -- structure


@pytest.mark.parametrize("item", manifests(), ids=lambda item: f"{item['kind']}/{item['metadata']['name']}")
def test_a_resource_has_what_kubernetes_requires_and_names_no_namespace(item: Resource) -> None:
    version, paths = REQUIRED[item["kind"]]
    assert item["apiVersion"] == version
    assert [path for path in paths if field(item, path) in (None, {}, [])] == []
    assert NAME.fullmatch(item["metadata"]["name"])
    assert "namespace" not in item["metadata"]


def test_names_are_unique_within_a_kind() -> None:
    names = [(item["kind"], item["metadata"]["name"]) for item in manifests()]
    assert len(names) == len(set(names))


def test_every_manifest_belongs_to_a_kustomization() -> None:
    listed = set()
    for path, document in kustomizations():
        for name in document.get("resources", ()):
            target = (path.parent / name).resolve()
            assert target.exists(), target
            listed.add(target)
        for generator in document.get("configMapGenerator", ()):
            assert all((path.parent / name).is_file() for name in generator["files"])
    files = {
        path for path in KUBERNETES.rglob("*.yaml") if path.name not in ("kustomization.yaml", "secret.example.yaml")
    }
    assert files <= listed


def test_the_migration_and_the_servers_have_the_same_image() -> None:
    images = [document["images"] for path, document in kustomizations() if "images" in document]
    assert len(images) == 2
    assert images[0] == images[1]
    assert {container["image"] for container in containers().values()} == {images[0][0]["name"]}


@needs_kubectl
@pytest.mark.parametrize("components", [(), ("autoscaling", "monitoring")])
def test_kustomize_builds_all_resources(tmp_path: Path, components: tuple[str, ...]) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    root = tmp_path / "deploy/kubernetes/kustomization.yaml"
    text = root.read_text(encoding="utf-8")
    if components:
        text = text.replace("# components:", "components:")
    for component in components:
        assert f"#   - {component} " in text
        text = text.replace(f"#   - {component} ", f"  - {component} ")
    root.write_text(text, encoding="utf-8")
    built = build(root.parent)
    kinds = [item["kind"] for item in built]
    assert kinds.count("Deployment") == 2
    assert ("ScaledObject" in kinds, "PodMonitor" in kinds) == (bool(components), bool(components))
    (project,) = (item for item in built if item["kind"] == "ConfigMap")
    assert project["data"].keys() == {"statewright.toml", "greeting.py"}
    for item in built:
        if item["kind"] == "Deployment":
            (volume,) = (
                volume for volume in item["spec"]["template"]["spec"]["volumes"] if volume["name"] == "project"
            )
            assert volume["configMap"]["name"] == project["metadata"]["name"]
            is_scaled = bool(components) and item["metadata"]["name"] == "statewright-worker"
            assert ("replicas" in item["spec"]) is not is_scaled


@needs_kubectl
def test_the_patch_in_the_guide_removes_the_project_from_all_pods(tmp_path: Path) -> None:
    (patch,) = re.findall(r"^patches:\n(?: .*\n)+", GUIDE.read_text(encoding="utf-8"), re.M)
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    root = tmp_path / "deploy/kubernetes/kustomization.yaml"
    text = root.read_text(encoding="utf-8").replace("  - ../project\n", "")
    root.write_text(text + patch, encoding="utf-8")
    built = [item for item in build(root.parent) if item["kind"] in ("Deployment", "ConfigMap")]
    assert [item["kind"] for item in built] == ["Deployment", "Deployment"]
    for item in built:
        pod = item["spec"]["template"]["spec"]
        assert {volume["name"] for volume in pod["volumes"]} == {"database-ca", "temporary"}
        assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == {"database-ca", "temporary"}


# -- references


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_a_deployment_selects_its_own_pods_only(deployment: str) -> None:
    selector = field(resource("Deployment", deployment), "spec.selector")
    assert is_selected(labels_of(deployment), selector)
    (other,) = set(DEPLOYMENTS) - {deployment}
    assert not is_selected(labels_of(other), selector)


def test_the_service_and_the_budgets_select_pods() -> None:
    service = resource("Service", "statewright")
    assert [name for name in DEPLOYMENTS if service["spec"]["selector"].items() <= labels_of(name).items()] == [
        "statewright-server"
    ]
    (port,) = service["spec"]["ports"]
    assert port["targetPort"] in {item["name"] for item in containers()["statewright-server"]["ports"]}
    for name in DEPLOYMENTS:
        budget = resource("PodDisruptionBudget", name)
        assert [each for each in DEPLOYMENTS if is_selected(labels_of(each), budget["spec"]["selector"])] == [name]
        assert budget["spec"]["maxUnavailable"] < resource("Deployment", name)["spec"]["replicas"]


def test_the_rules_of_the_network_cover_all_pods_and_their_ports() -> None:
    policies = [item for item in manifests() if item["kind"] == "NetworkPolicy"]
    for name in DEPLOYMENTS:
        mine = [item["spec"] for item in policies if is_selected(labels_of(name), item["spec"]["podSelector"])]
        assert {kind for spec in mine for kind in spec["policyTypes"]} == {"Ingress", "Egress"}
        opened = {port["port"] for spec in mine for rule in spec.get("ingress", ()) for port in rule["ports"]}
        assert opened == {port["name"] for port in containers()[name]["ports"]}
    job = field(resource("Job", "statewright-migrate"), "spec.template.metadata.labels")
    mine = [item["spec"] for item in policies if is_selected(job, item["spec"]["podSelector"])]
    assert {kind for spec in mine for kind in spec["policyTypes"]} == {"Ingress", "Egress"}
    assert "ports" not in containers()["statewright-migrate"]
    assert 5432 in {port["port"] for spec in mine for rule in spec.get("egress", ()) for port in rule["ports"]}


def test_a_copy_of_the_workers_for_a_queue_is_scraped_and_connected_and_has_its_own_pods() -> None:
    text = (KUBERNETES / "workers.yaml").read_text(encoding="utf-8")
    for words in (("statewright-worker", "statewright-worker-gpu"), ("component: worker", "component: worker-gpu")):
        assert all(f"`{word}`" in text for word in words)  # as the file says
        text = text.replace(*words)
    copies = {item["kind"]: item for item in yaml.safe_load_all(text)}
    labels = field(copies["Deployment"], "spec.template.metadata.labels")
    assert copies.keys() == {"Deployment", "PodDisruptionBudget"}
    assert all(is_selected(labels, copy["spec"]["selector"]) for copy in copies.values())
    assert {copy["metadata"]["name"] for copy in copies.values()} == {"statewright-worker-gpu"}

    selectors = {(item["kind"], item["metadata"]["name"]): field(item, "spec.selector") for item in manifests()}
    policies = {item["metadata"]["name"]: item["spec"] for item in manifests() if item["kind"] == "NetworkPolicy"}
    for name in DEPLOYMENTS:
        for kind, copy in copies.items():
            assert not is_selected(labels_of(name), copy["spec"]["selector"])
            assert not is_selected(labels, selectors[kind, name])
    assert is_selected(labels, selectors["PodMonitor", "statewright"])
    assert {name for name, spec in policies.items() if is_selected(labels, spec["podSelector"])} == {
        name for name, spec in policies.items() if is_selected(labels_of("statewright-worker"), spec["podSelector"])
    }


def test_the_scaled_and_the_scraped_pods_exist() -> None:
    scaled = resource("ScaledObject", "statewright-worker")["spec"]
    target = resource("Deployment", scaled["scaleTargetRef"]["name"])
    assert scaled["minReplicaCount"] == target["spec"]["replicas"] < scaled["maxReplicaCount"]
    monitor = resource("PodMonitor", "statewright")["spec"]
    assert [name for name in DEPLOYMENTS if is_selected(labels_of(name), monitor["selector"])] == DEPLOYMENTS
    for endpoint in monitor["podMetricsEndpoints"]:
        assert all(endpoint["port"] in {port["name"] for port in containers()[name]["ports"]} for name in DEPLOYMENTS)


def test_workers_are_added_before_they_are_full() -> None:
    triggers = {
        trigger["name"]: trigger for trigger in resource("ScaledObject", "statewright-worker")["spec"]["triggers"]
    }
    assert triggers["load"]["metricType"] == "AverageValue"
    capacity = parse(containers()["statewright-worker"]["args"])["capacity"]
    assert 0 < float(triggers["load"]["metadata"]["threshold"]) < capacity
    assert triggers["age"]["metricType"] == "Value"
    assert all(trigger["metadata"]["ignoreNullValues"] == "false" for trigger in triggers.values())


@pytest.mark.parametrize("name", pods())
def test_volumes_secrets_and_variables_of_a_pod_are_defined(name: str) -> None:
    secrets = {item["metadata"]["name"]: item["stringData"] for item in manifests() if item["kind"] == "Secret"}
    pod, container = pods()[name], containers()[name]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    for variable in container["env"]:
        reference = variable["valueFrom"]["secretKeyRef"]
        assert reference["key"] in secrets[reference["name"]], variable["name"]
    generated = {item["name"] for _, document in kustomizations() for item in document.get("configMapGenerator", ())}
    for volume in pod["volumes"]:
        if "configMap" in volume:
            assert volume["configMap"]["name"] in generated
        if "secret" in volume:
            assert volume["secret"]["optional"] is True


def test_the_certificate_is_where_the_example_of_the_address_looks_for_it() -> None:
    address = resource("Secret", "statewright-database")["stringData"]["url"]
    match = re.search(r"sslrootcert=(.*)/ca\.crt", address)
    assert match is not None
    for container in containers().values():
        assert match[1] in {mount["mountPath"] for mount in container["volumeMounts"]}


# -- safety


@pytest.mark.parametrize("name", pods())
def test_a_pod_runs_without_permissions(name: str) -> None:
    pod, container = pods()[name], containers()[name]
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    context = pod["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, USER)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_probes_restart_stuck_processes_and_wait_for_slow_ones(name: str) -> None:
    container = containers()[name]
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")}
    # Liveness is neither /health, which fails in an outage of the database, nor /ready, which fails while draining.
    assert paths == {"startup": "/ready", "readiness": "/ready", "liveness": "/live"}
    startup, liveness = container["startupProbe"], container["livenessProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 120
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 60
