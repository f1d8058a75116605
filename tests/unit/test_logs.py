"""What a line carries besides what it says."""

from structlog.contextvars import bound_contextvars

from config.logs import name_the_work


def test_what_the_context_knows_is_on_every_line() -> None:
    with bound_contextvars(job_id="1", attempt=2):
        line = name_the_work(None, "info", {"event": "said"})
    assert line == {"event": "said", "job_id": "1", "attempt": 2}


def test_a_line_cannot_rename_its_job_but_keeps_what_it_said() -> None:
    with bound_contextvars(job_id="1"):
        line = name_the_work(None, "info", {"event": "said", "job_id": "2"})
    assert line == {"event": "said", "job_id": "1", "said_job_id": "2"}


def test_the_same_word_is_said_once() -> None:
    with bound_contextvars(job_id="1"):
        line = name_the_work(None, "info", {"event": "said", "job_id": "1"})
    assert line == {"event": "said", "job_id": "1"}
