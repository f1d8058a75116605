import pytest
from jobs import runner
from jobs.models import Job
from tests.drills.kinds import noop, repeatable
from tests.drills.ledger import effects
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def test_a_job_runs(tmp_path) -> None:
    ws = Workspace.objects.create(slug="acme", name="Acme")
    ledger = str(tmp_path / "l")
    job = repeatable.s(ledger=ledger).enqueue(workspace=ws, key="a")
    runner.execute(job.kind, job.pk)
    job.refresh_from_db()
    assert (job.state, job.result) == ("succeeded", {"second": True})
    assert effects(ledger) == {"first": 1, "second": 1}
    assert [a.outcome for a in job.attempts.all()] == ["succeeded"]
