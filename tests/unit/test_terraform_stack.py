"""A module's digest covers what could run, and nothing that a run leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioning.terraform.binary import Binary
from provisioning.terraform.stack import Backend, Stack, copy, digest


@pytest.fixture
def module(tmp_path: Path) -> Path:
    folder = tmp_path / "module"
    (folder / "scripts").mkdir(parents=True)
    (folder / "main.tf").write_text("# module")
    (folder / "scripts/do.sh").write_text("echo one")
    return folder


def test_an_edited_script_changes_the_digest(module: Path) -> None:
    before = digest(module)
    (module / "scripts/do.sh").write_text("echo two")

    assert digest(module) != before


def test_a_name_and_an_executable_bit_change_the_digest(module: Path) -> None:
    before = digest(module)
    (module / "scripts/do.sh").chmod(0o755)
    executable = digest(module)
    (module / "scripts/do.sh").rename(module / "scripts/did.sh")

    assert len({before, executable, digest(module)}) == 3


def test_what_runs_leave_behind_is_neither_copied_nor_counted(module: Path) -> None:
    before = digest(module)
    (module / ".terraform").mkdir()
    for name in (".terraform/plugin", "terraform.tfstate", "terraform.tfstate.backup"):
        (module / name).write_text("left")
    (module / ".terraform.lock.hcl").write_text("lock")

    copy(module, module.with_name("copy"))

    assert digest(module) == before == digest(module.with_name("copy"))
    assert {path.name for path in module.with_name("copy").iterdir()} == {
        "main.tf",
        "scripts",
        ".terraform.lock.hcl",
    }


def test_secrets_and_credentials_are_hidden_variables_are_not(module: Path) -> None:
    stack = Stack(
        Binary(Path("/bin/tofu"), "1.10.0"),
        module,
        Backend.local(module / "s.tfstate"),
        variables={"name": "acme-name"},
        secrets={"password": "hush-hush"},
        environ={"TOKEN": "token-value"},
    )

    scrubbed = stack.hidden().scrub("acme-name hush-hush token-value")

    assert scrubbed == "acme-name [hidden] [hidden]"
    assert "hush-hush" not in repr(stack)
    assert "token-value" not in repr(stack)
    assert stack.environment()["TF_VAR_password"] == "hush-hush"
    assert stack.environment()["TOKEN"] == "token-value"
    assert stack.backend.file == module / "s.tfstate"
    assert Backend("http", {"address": "x"}).file is None
