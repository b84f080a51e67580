#!/usr/bin/env python3
"""The files in deploy/posts and deploy/kubernetes, as far as they can be checked without an engine or a cluster.

    tests/posts/test_deploy.py
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests"))
from services import LOOPBACK, Nginx, Posts  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None

COMPOSE = os.path.join(ROOT, "deploy", "posts", "compose.yaml")
DOCKERFILE = os.path.join(ROOT, "deploy", "posts", "Dockerfile")
NGINX = os.path.join(ROOT, "deploy", "posts", "nginx.conf")
KUBERNETES = os.path.join(ROOT, "deploy", "kubernetes")
# Words of settings that would give an instance a number by hand.
BY_HAND = re.compile(r"(NODE|WORKER|MACHINE|INSTANCE)_?(ID|NUMBER)|static:|env:[A-Z]", re.IGNORECASE)
TIMEOUT_S = 60
DURABLE = [["--appendonly", "yes"], ["--appendfsync", "always"], ["--maxmemory-policy", "noeviction"]]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def pairs(words):
    return [list(pair) for pair in zip(words, words[1:])]


def has(program, *arguments):
    """Does it work here?"""
    return shutil.which(program) is not None and subprocess.run(
        [program, *arguments], capture_output=True, timeout=TIMEOUT_S, check=False).returncode == 0


def instructions(dockerfile):
    """(instruction, its words) one after the other, continued lines joined."""
    text = re.sub(r"^#.*\n", "", read(dockerfile), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.split()[1:]) for line in text.splitlines() if line.strip()]


@unittest.skipUnless(yaml, "python3-yaml is not installed")
class Compose(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.file = yaml.safe_load(read(COMPOSE))
        cls.services = cls.file["services"]

    def test_nobody_is_given_a_number(self):
        self.assertIsNone(BY_HAND.search(read(COMPOSE)))

    def test_the_backend_can_be_scaled(self):
        backend = self.services["backend"]
        self.assertEqual(backend["restart"], "always")
        self.assertEqual(backend["expose"], ["8080"])
        self.assertNotIn("ports", backend)
        self.assertNotIn("container_name", backend)
        self.assertNotIn("hostname", backend)
        self.assertTrue(backend["environment"]["KAZAHANA_SOURCE"].startswith("tsid+redis://redis:6379"))
        self.assertTrue(backend["environment"]["LISTEN"].endswith(":" + backend["expose"][0]))

    def test_its_health_is_looked_at_where_it_listens(self):
        self.assertIn("http://127.0.0.1:8080/health", self.services["backend"]["healthcheck"]["test"])

    def test_redis_forgets_nothing(self):
        redis = self.services["redis"]
        for setting in DURABLE:
            self.assertIn(setting, pairs(redis["command"]))
        self.assertIn("redis:/data", redis["volumes"])
        self.assertIn("redis", self.file["volumes"])

    def test_only_the_load_balancer_is_reached_from_outside(self):
        self.assertEqual([name for name, service in self.services.items() if "ports" in service], ["nginx"])
        self.assertTrue(self.file["networks"]["back"]["internal"])

    def test_every_network_and_volume_that_is_used_exists(self):
        for service in self.services.values():
            self.assertLessEqual(set(service["networks"]), set(self.file["networks"]))
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                if source.startswith("."):
                    self.assertTrue(os.path.exists(os.path.join(os.path.dirname(COMPOSE), source)), source)
                else:
                    self.assertIn(source, self.file["volumes"])

    def test_the_image_is_built_from_what_is_here(self):
        build = self.services["backend"]["build"]
        context = os.path.join(os.path.dirname(COMPOSE), build["context"])
        self.assertTrue(os.path.samefile(os.path.join(context, build["dockerfile"]), DOCKERFILE))

    @unittest.skipUnless(has("docker", "compose", "version"), "docker compose is not installed")
    def test_compose_itself_reads_it(self):
        subprocess.run(["docker", "compose", "-f", COMPOSE, "config", "--quiet"], check=True, timeout=TIMEOUT_S)


class LoadBalancer(unittest.TestCase):
    def test_addresses_are_asked_for_again(self):
        text = read(NGINX)
        self.assertRegex(text, r"resolver 127\.0\.0\.11 valid=1s")
        self.assertRegex(text, r"set \$backend backend:8080;")
        # Only a name in a variable is looked up again.
        self.assertRegex(text, r"proxy_pass http://\$backend;")
        self.assertNotIn("non_idempotent", text)

    @unittest.skipIf(Nginx.missing(), Nginx.missing())
    def test_nginx_itself_reads_it(self):
        with tempfile.TemporaryDirectory(prefix="kz-nginx-") as folder:
            nginx = Nginx(folder, NGINX)
            nginx.change({"listen 80 ": f"listen {LOOPBACK}:{nginx.port} "})
            result = subprocess.run(nginx.command("-t"), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)


class Image(unittest.TestCase):
    def test_it_has_two_stages_of_debian_12(self):
        stages = [words for instruction, words in instructions(DOCKERFILE) if instruction == "FROM"]
        self.assertEqual(stages, [["debian:12", "AS", "build"], ["debian:12-slim"]])

    def test_what_is_copied_exists(self):
        for instruction, words in instructions(DOCKERFILE):
            if instruction == "COPY" and not words[0].startswith("--from"):
                for source in words[:-1]:
                    self.assertTrue(os.path.exists(os.path.join(ROOT, source)), source)

    def test_it_is_built_as_on_any_other_machine(self):
        runs = [" ".join(words) for instruction, words in instructions(DOCKERFILE) if instruction == "RUN"]
        self.assertIn("scripts/install-packages build posts", runs)
        self.assertIn("make posts PACKAGES=no", runs)
        self.assertRegex(read(os.path.join(ROOT, "Makefile")), r"(?m)^posts:")
        self.assertRegex(read(os.path.join(ROOT, "scripts", "install-packages")), r"(?m)^    posts\) ")

    def test_the_program_that_is_taken_over_is_the_one_that_make_builds(self):
        copied = [words for instruction, words in instructions(DOCKERFILE)
                  if instruction == "COPY" and words[0].startswith("--from")]
        self.assertEqual(copied, [["--from=build", "/src/build/examples/posts/posts", "/usr/local/bin/posts"]])
        self.assertIn("examples/posts/posts", read(os.path.join(ROOT, "Makefile")))

    @unittest.skipUnless(has("dpkg-query", "--version") and "VERSION_ID=\"12\"" in read("/etc/os-release")
                         and not Posts.missing(), "libraries have other packages than on Debian 12 here")
    def test_its_packages_are_those_of_the_libraries_that_the_program_needs(self):
        needed = re.findall(r"NEEDED\s+(\S+)", subprocess.run(
            ["objdump", "-p", Posts.program], capture_output=True, text=True, check=True, timeout=TIMEOUT_S).stdout)
        packages = set()
        for library in needed:
            if re.match(r"lib(asan|ubsan|tsan)", library):
                continue
            owner = subprocess.run(["dpkg-query", "-S", f"*/{library}"], capture_output=True, text=True, check=True,
                                   timeout=TIMEOUT_S).stdout.split(":")[0]
            packages.add(owner)
        packages -= {"libc6", "libgcc-s1"}
        installed = " ".join(" ".join(words) for instruction, words in instructions(DOCKERFILE) if instruction == "RUN")
        listed = set(re.findall(r"\blib\S+", installed.split("--no-install-recommends", 1)[1].split("&&")[0]))
        self.assertEqual(listed, packages)

    def test_it_is_not_run_by_root_nor_by_a_shell(self):
        steps = dict(instructions(DOCKERFILE))
        self.assertEqual(steps["USER"], ["65534:65534"])
        self.assertEqual(steps["ENTRYPOINT"], ['["/usr/local/bin/posts"]'])


@unittest.skipUnless(yaml, "python3-yaml is not installed")
class Kubernetes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts = {path: read(path) for path in sorted(glob.glob(os.path.join(KUBERNETES, "*.yaml")))}
        cls.objects = {}
        for path, text in cls.texts.items():
            for thing in yaml.safe_load_all(text):
                if os.path.basename(path) == "kustomization.yaml":
                    cls.resources = thing["resources"]
                else:
                    cls.objects[thing["kind"], thing["metadata"]["name"]] = thing
        cls.deployments = [thing for (kind, _), thing in cls.objects.items() if kind == "Deployment"]
        cls.posts = cls.objects["Deployment", "posts"]
        cls.pod = cls.posts["spec"]["template"]["spec"]
        cls.container = cls.pod["containers"][0]

    def test_every_file_is_applied(self):
        names = {os.path.basename(path) for path in self.texts} - {"kustomization.yaml"}
        self.assertEqual(set(self.resources), names)

    def test_nobody_is_given_a_number(self):
        for path, text in self.texts.items():
            self.assertIsNone(BY_HAND.search(text), path)
        self.assertFalse([kind for kind, _ in self.objects if kind == "StatefulSet"])

    def test_there_are_five_that_are_replaced_one_after_the_other(self):
        self.assertEqual(self.posts["spec"]["replicas"], 5)
        self.assertEqual(self.posts["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0)
        budget = self.objects["PodDisruptionBudget", "posts"]["spec"]
        self.assertLess(budget["minAvailable"], self.posts["spec"]["replicas"])
        self.assertEqual(budget["selector"], self.posts["spec"]["selector"])

    def test_selectors_match_labels(self):
        for thing in self.deployments:
            labels = thing["spec"]["template"]["metadata"]["labels"]
            self.assertEqual(thing["spec"]["selector"]["matchLabels"], labels)
            service = self.objects["Service", thing["metadata"]["name"]]["spec"]
            self.assertEqual(service["selector"], labels)
            ports = {port["name"] for port in thing["spec"]["template"]["spec"]["containers"][0]["ports"]}
            self.assertIn(service["ports"][0]["targetPort"], ports)

    def test_probes_ask_for_health(self):
        paths = {kind: self.container[kind]["httpGet"]["path"]
                 for kind in ("startupProbe", "readinessProbe", "livenessProbe")}
        self.assertEqual(paths, {"startupProbe": "/health", "readinessProbe": "/health",
                                 "livenessProbe": "/health/live"})
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        environment = {one["name"]: one.get("value") for one in self.container["env"]}
        self.assertTrue(environment["LISTEN"].endswith(f":{ports['http']}"))

    def test_it_is_given_time_to_end(self):
        before = int(self.container["lifecycle"]["preStop"]["exec"]["command"][1])
        drain = int(re.search(r"DRAIN_LIMIT_MS = (\d+)", read(os.path.join(ROOT, "examples", "posts", "main.c")))[1])
        self.assertGreater(self.pod["terminationGracePeriodSeconds"], before + drain / 1000 + 5)

    def test_all_are_confined_and_say_what_they_need(self):
        for thing in self.deployments:
            pod = thing["spec"]["template"]["spec"]
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            for container in pod["containers"]:
                self.assertEqual(container["securityContext"], {
                    "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]}})
                self.assertIn("memory", container["resources"]["limits"])
                self.assertIn("cpu", container["resources"]["requests"])

    def test_redis_forgets_nothing_and_is_alone_on_its_disk(self):
        redis = self.objects["Deployment", "redis"]["spec"]
        self.assertEqual((redis["replicas"], redis["strategy"]["type"]), (1, "Recreate"))
        container = redis["template"]["spec"]["containers"][0]
        for setting in DURABLE:
            self.assertIn(setting, pairs(container["args"]))
        self.assertEqual(container["volumeMounts"], [{"name": "data", "mountPath": "/data"}])

    def test_claims_and_secrets_that_are_used_exist(self):
        for thing in self.deployments:
            pod = thing["spec"]["template"]["spec"]
            for volume in pod.get("volumes", []):
                claim = volume.get("persistentVolumeClaim", {}).get("claimName")
                self.assertTrue(claim is None or ("PersistentVolumeClaim", claim) in self.objects, claim)
            for one in pod["containers"][0].get("env", []):
                wanted = one.get("valueFrom", {}).get("secretKeyRef")
                if wanted:
                    self.assertIn(wanted["key"], self.objects["Secret", wanted["name"]]["stringData"])

    def test_images_are_those_of_compose(self):
        here = {thing["spec"]["template"]["spec"]["containers"][0]["image"] for thing in self.deployments}
        services = yaml.safe_load(read(COMPOSE))["services"]
        there = {service["image"] for name, service in services.items() if name != "nginx"}
        self.assertEqual(here, there)
        version = re.search(r"version: '([0-9.]+)'", read(os.path.join(ROOT, "meson.build")))[1]
        self.assertIn(f"kazahana-posts:{version}", here)

    @unittest.skipUnless(has("kubectl", "version", "--client"), "kubectl is not installed")
    def test_kubectl_puts_them_together(self):
        whole = subprocess.run(["kubectl", "kustomize", KUBERNETES], capture_output=True, text=True, timeout=TIMEOUT_S,
                               check=True).stdout
        self.assertEqual(len(list(yaml.safe_load_all(whole))), len(self.objects))


@unittest.skipUnless(yaml, "python3-yaml is not installed")
class Servers(unittest.TestCase):
    """deploy/serve: lease servers over one PostgreSQL."""

    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(ROOT, "deploy", "serve")
        cls.compose = yaml.safe_load(read(os.path.join(cls.folder, "compose.yaml")))
        things = list(yaml.safe_load_all(read(os.path.join(cls.folder, "kubernetes.yaml"))))
        cls.objects = {thing["kind"]: thing for thing in things}
        cls.pod = cls.objects["Deployment"]["spec"]["template"]["spec"]

    def test_all_servers_have_one_store_and_postgres_forgets_nothing(self):
        services = self.compose["services"]
        stores = {services[name]["environment"]["KAZAHANA_STORE"] for name in ("first", "second")}
        self.assertEqual(len(stores), 1)
        self.assertRegex(stores.pop(), r"^postgresql://.*@postgres/")
        for setting in ("fsync=on", "full_page_writes=on", "synchronous_commit=on"):
            self.assertIn(setting, services["postgres"]["command"])
        self.assertEqual(services["postgres"]["networks"], ["back"])
        self.assertTrue(self.compose["networks"]["back"]["internal"])

    def test_nobody_is_given_a_number(self):
        for name in ("compose.yaml", "kubernetes.yaml", "Dockerfile"):
            self.assertIsNone(BY_HAND.search(read(os.path.join(self.folder, name))), name)

    def test_what_a_pod_uses_exists(self):
        secret = self.objects["Secret"]["stringData"]
        container = self.pod["containers"][0]
        self.assertIn(container["env"][0]["valueFrom"]["secretKeyRef"]["key"], secret)
        self.assertIn(self.pod["volumes"][0]["secret"]["items"][0]["key"], secret)
        self.assertEqual(self.objects["Service"]["spec"]["selector"], {"app": "kazahana"})
        self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
        self.assertFalse(self.pod["enableServiceLinks"])

    def test_the_program_takes_these_settings(self):
        program = os.path.join(os.path.dirname(Posts.program), "..", "..", "kazahana")
        if not os.access(program, os.X_OK):
            self.skipTest(f"{program} is not built")
        with tempfile.TemporaryDirectory(prefix="kz-serve-") as folder:
            tokens = os.path.join(folder, "tokens")
            with open(tokens, "w", encoding="ascii") as file:
                file.write(self.objects["Secret"]["stringData"]["tokens"] + "\n")
            os.chmod(tokens, 0o600)
            words = [tokens if word.startswith("/etc/") else word for word in self.pod["containers"][0]["args"]]
            result = subprocess.run([program, *words, "--check-config"], capture_output=True, text=True, check=False,
                                    timeout=TIMEOUT_S, env=dict(os.environ, KAZAHANA_STORE=self.objects["Secret"][
                                        "stringData"]["store"].replace("@postgres", "@127.0.0.1:1")))
            self.assertEqual(result.returncode, 0, result.stderr)

    @unittest.skipUnless(has("docker-compose", "version"), "docker-compose is not installed")
    def test_compose_itself_reads_it(self):
        subprocess.run(["docker-compose", "-f", os.path.join(self.folder, "compose.yaml"), "config", "-q"], check=True,
                       timeout=TIMEOUT_S)


if __name__ == "__main__":
    unittest.main(verbosity=2)
