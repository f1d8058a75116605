"""What the real tool refuses, and that no secret is in what we say about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from provisioning.terraform import binary
from provisioning.terraform.apply import Applied
from provisioning.terraform.ask import ToolFailed
from provisioning.terraform.binary import Binary
from provisioning.terraform.classify import Class
from provisioning.terraform.errors import BinaryMissing, TerraformError
from provisioning.terraform.observe import observe
from provisioning.terraform.plan import plan
from provisioning.terraform.prepare import prepare
from provisioning.terraform.stack import Stack
from tests.support.terraform import EXAMPLE, Site, real_tool

CANARY = 'canary-<7&f>-"3a\\9'


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, real_tool(), hold=tmp_path / "hold")


def failing(site: Site, text: str, **variables: Any) -> ToolFailed:
    with pytest.raises(ToolFailed) as failed:
        site.plan(site.stack(site.module(text), **variables))
    return failed.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('resource "terraform_data" "a" { input = }', "config_invalid"),
        ("output o { value = var.nope }", "config_invalid"),
        ('variable "v" { type = string }', "variable_missing"),
        ('terraform { required_version = ">= 99" }', "tool_version"),
        (
            'resource "terraform_data" "a" {\n  lifecycle {\n    precondition {\n'
            "      condition = terraform.workspace == null\n"
            '      error_message = "no"\n    }\n  }\n}',
            "condition_failed",
        ),
    ],
)
def test_a_module_that_cannot_be_planned_says_why(site: Site, text: str, expected: str) -> None:
    failed = failing(site, text)

    assert (failed.outcome.kind, failed.code) == (Class.TERMINAL, expected)
    assert failed.message in failed.sentence


def test_a_variable_of_the_wrong_kind_is_invalid(site: Site) -> None:
    text = 'variable "n" { type = number }'

    assert failing(site, text, n="many").code == "variable_invalid"


def test_a_variable_that_the_module_does_not_know_is_not_ignored(site: Site) -> None:
    failed = failing(site, "", typo="x")

    assert failed.code == "variable_undeclared"
    assert "typo" in failed.sentence


def test_a_provider_that_needs_the_network_is_a_registry_that_does_not_answer(site: Site) -> None:
    text = (
        'terraform {\n  required_providers {\n    x = { source = "127.0.0.1:9/none/none" }\n  }\n}'
    )
    failed = failing(site, text)

    assert (failed.outcome.kind, failed.code) == (Class.TRANSIENT, "registry_unavailable")


def test_a_plan_that_takes_too_long_is_interrupted_and_may_be_tried_again(site: Site) -> None:
    slow = site.path / "slow"
    slow.write_text(f'#!/bin/sh\n[ "$1" = plan ] && sleep 600\nexec {site.tool.path} "$@"\n')
    slow.chmod(0o755)
    stack = Stack(Binary(slow, site.tool.version), EXAMPLE, site.stack().backend)
    folder = site.folder()
    prepare(stack, folder)

    with pytest.raises(ToolFailed) as failed:
        plan(stack, folder, seconds=0.2, lock_wait=0)

    assert failed.value.outcome.kind is Class.TRANSIENT


SECRET_MODULE = """
variable "password" {
  type      = string
  sensitive = true
}
variable "fail" { type = bool }
resource "terraform_data" "leak" {
  input = var.password
  provisioner "local-exec" {
    command     = var.fail ? "echo \\"$P\\"; echo \\"$P\\" >&2; exit 1" : "true"
    environment = { P = var.password }
  }
}
output "password" {
  value     = var.password
  sensitive = true
}
"""


def leaky(site: Site, *, as_secret: bool) -> tuple[Stack, Applied]:
    given = {"password": CANARY}
    stack = Stack(
        site.tool,
        site.module(SECRET_MODULE),
        site.stack().backend,
        variables={"fail": True} | ({} if as_secret else given),
        secrets=given if as_secret else {},
    )
    return stack, site.apply(stack, site.plan(stack), site.folder())


@pytest.mark.parametrize("as_secret", [True, False], ids=["given as secret", "marked by module"])
def test_a_secret_that_the_tool_prints_is_in_none_of_our_texts(site: Site, as_secret: bool) -> None:
    _, applied = leaky(site, as_secret=as_secret)

    printed = (site.path / f"attempt-{site.folders}/apply/stdout").read_text()
    assert "canary-" in printed, "the tool leaks it, or this test proves nothing"
    assert applied.outcome.code == "apply_partial"
    assert "[hidden]" in applied.message
    assert "canary-" not in repr(applied)


def test_a_secret_is_in_no_observation_and_no_plan(site: Site) -> None:
    stack, _ = leaky(site, as_secret=True)
    folder = site.path / f"attempt-{site.folders}"
    replanned = site.plan(stack)

    seen = observe(stack, folder, prior=replanned.prior)

    assert "canary-" not in repr(seen)
    assert "canary-" not in repr(replanned)
    assert "canary-" not in str(replanned.record())


def test_a_secret_in_a_failing_condition_is_hidden(site: Site) -> None:
    text = (
        'variable "password" {\n  type = string\n  validation {\n'
        '    condition = length(var.password) < 3\n    error_message = "bad: ${var.password}"\n'
        "  }\n}"
    )
    stack = Stack(site.tool, site.module(text), site.stack().backend, secrets={"password": CANARY})

    with pytest.raises(ToolFailed) as failed:
        site.plan(stack)

    assert failed.value.code == "variable_invalid"
    assert "bad: [hidden]" in failed.value.sentence
    assert "canary-" not in repr(failed.value) + str(failed.value)


def test_a_tool_that_vanished_means_that_nothing_started(site: Site) -> None:
    stack = site.stack()
    planned, folder = site.plan(stack), site.folder()
    gone = Stack(Binary(site.path / "gone", "1.11.4"), stack.module, stack.backend, stack.variables)

    with pytest.raises(TerraformError) as refused:
        site.apply(gone, planned, folder)

    assert refused.value.code == "binary_missing"
    assert site.effects == []


def executable(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return file


SAYS = """#!/bin/sh
echo '{"terraform_version": "1.10.0"}'
"""


def test_opentofu_is_preferred_and_a_given_path_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tofu = executable(tmp_path / "bin", "tofu", SAYS)
    executable(tmp_path / "bin", "terraform", SAYS)
    given = executable(tmp_path / "own", "my-tofu", SAYS)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    assert binary.find() == Binary(tofu, "1.10.0")
    assert str(binary.find(str(given))) == "my-tofu 1.10.0"
    tofu.unlink()
    assert binary.find().path.name == "terraform"


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hi\n", "#!/no/such\n"])
def test_a_tool_that_does_not_say_its_version_is_none(tmp_path: Path, text: str) -> None:
    file = executable(tmp_path / "bin", "tofu", text)

    with pytest.raises(BinaryMissing) as missing:
        binary.find(str(file))

    assert missing.value.code == "binary_missing"


def test_no_tool_at_all_is_said_with_what_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BinaryMissing, match="neither `tofu` nor `terraform`"):
        binary.find()
    with pytest.raises(BinaryMissing, match="TOFU_BIN"):
        binary.find("/no/such/tofu")
