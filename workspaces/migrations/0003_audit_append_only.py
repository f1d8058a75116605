"""The audit trail can be added to and read; the database itself refuses everything else."""

from django.db import migrations, models

WORDS = "an audit event stays as it was written"

POSTGRESQL = (
    f"""
    CREATE FUNCTION workspaces_audit_kept() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION '{WORDS}' USING ERRCODE = 'restrict_violation';
    END $$
    """,
    """
    CREATE TRIGGER workspaces_audit_kept BEFORE UPDATE OR DELETE ON workspaces_auditevent
    FOR EACH ROW EXECUTE FUNCTION workspaces_audit_kept()
    """,
    """
    CREATE TRIGGER workspaces_audit_not_emptied BEFORE TRUNCATE ON workspaces_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION workspaces_audit_kept()
    """,
)
SQLITE = tuple(
    f"""
    CREATE TRIGGER workspaces_audit_no_{deed.lower()} BEFORE {deed} ON workspaces_auditevent
    BEGIN SELECT RAISE(ABORT, '{WORDS}'); END
    """
    for deed in ("UPDATE", "DELETE")
)
UNDO = {
    "postgresql": (
        "DROP TRIGGER workspaces_audit_not_emptied ON workspaces_auditevent",
        "DROP TRIGGER workspaces_audit_kept ON workspaces_auditevent",
        "DROP FUNCTION workspaces_audit_kept()",
    ),
    "sqlite": (
        "DROP TRIGGER workspaces_audit_no_update",
        "DROP TRIGGER workspaces_audit_no_delete",
    ),
}
DO = {"postgresql": POSTGRESQL, "sqlite": SQLITE}


def protect(_apps, schema_editor):
    for statement in DO[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


def unprotect(_apps, schema_editor):
    for statement in UNDO[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0002_service_accounts_and_idempotency"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(fields=["workspace", "created_at"], name="audit_of_time"),
        ),
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(fields=["workspace", "actor", "-id"], name="audit_of_actor"),
        ),
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(fields=["request_id"], name="audit_of_request"),
        ),
        # Last: on SQLite a change of the table makes it anew, without its triggers.
        migrations.RunPython(protect, unprotect),
    ]
