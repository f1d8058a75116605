"""Django's and Celery's settings. What differs between machines comes from ``config.env``."""

from typing import Any

from csp.constants import NONE, SELF
from kombu import Queue

from config import logs
from config.env import ENV, ROOT, cache_url
from config.queues import QUEUES
from jobs import states

# --- Firedoor
FIREDOOR_ENVIRONMENT = ENV.environment
FIREDOOR_EXTRA_APPS = ENV.extra_apps
FIREDOOR_QUEUES = tuple(queue.name for queue in QUEUES)
FIREDOOR_TOFU_BIN = ENV.tofu_bin
FIREDOOR_PROVISIONING = ENV.var / "provisioning"  # states, folders of attempts, example effects
FIREDOOR_MODULE = ROOT / "provisioning/stacks/modules/workspace"  # what a workspace is made of
FIREDOOR_REGISTRY_URL = ENV.registry_url
FIREDOOR_EXAMPLES = None if ENV.deployed else ENV.var  # where the example services are found
WEBHOOK_SEALING_KEYS = list(ENV.webhook_sealing_keys)
WEBHOOK_ALLOW_HTTP = ENV.webhook_allow_http
WEBHOOK_ALLOW_NETWORKS = list(ENV.webhook_allow_networks)
REDIS_URL = ENV.redis_url
FIREDOOR_INLINE = REDIS_URL is None
SENTRY_DSN = ENV.sentry_dsn

# --- Applications
INSTALLED_APPS = [
    "config",
    "config.console.apps.ConsoleConfig",  # django.contrib.admin with our site
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "csp",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "django_celery_results",
    "workspaces",
    "jobs",
    "provisioning.stacks",
    "provisioning.lifecycle",
    "alerts",
    "webhooks",
    "examples.payments",
    *FIREDOOR_EXTRA_APPS,
]
MIDDLEWARE = [
    "config.health.HealthMiddleware",
    "config.request_id.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "config.console.no_store.NoStoreMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "config.refusals.AddressMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "config" / "console" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# --- Database
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASE: dict[str, Any] = {**ENV.database}
if DATABASE["ENGINE"] == "django.db.backends.postgresql":
    # A web process keeps its connections and checks them per request. A worker keeps them through
    # CELERY_DB_REUSE_MAX and heals them itself: Django's checks hang on request signals, which a
    # worker never sends.
    DATABASE |= {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
    DATABASE["OPTIONS"] = {
        "prepare_threshold": 0,  # the hot path's statements are prepared on first use
        "connect_timeout": 3,
        "keepalives_idle": 30,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
        # A process stopped in the middle of a transaction must not hold a row for ever, nor may the
        # query of one that is gone go on with what it has locked.
        "options": "-c idle_in_transaction_session_timeout=60000"
        " -c client_connection_check_interval=1000",
        **DATABASE.get("OPTIONS", {}),
    }
else:
    # One writer at a time that waits its turn: without IMMEDIATE a read that turns into a write
    # fails at once in spite of the timeout.
    DATABASE["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
    # In a file, so that the threads and processes of a test meet in one database.
    DATABASE["TEST"] = {"NAME": f"{DATABASE['NAME']}.test"}
DATABASES = {"default": DATABASE}

# --- Cache: counts of refused tokens, nothing else
CACHES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}
if REDIS_URL:
    CACHES["default"] = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": [cache_url(REDIS_URL)],  # a list: a text would be cut at its commas
        "KEY_PREFIX": "firedoor",
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 1},
    }

# --- Celery: messages only wake a worker; the job row is the truth
CELERY_BROKER_URL = REDIS_URL or "memory://"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True  # any boot order
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # the default gives up after 100
CELERY_BROKER_CHANNEL_ERROR_RETRY = True  # full, or a replica by now: ask again, do not exit
CELERY_BROKER_POOL_ACQUIRE_TIMEOUT = 1.0
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 1,
    "socket_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,  # a half-open connection is found in seconds
    "visibility_timeout": 3600,  # of no matter to config.broker's channel, which notes nothing
}
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 0}  # the sweeper publishes again
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_POOL = "config.prefork:TaskPool"
CELERY_TASK_DEFAULT_QUEUE = QUEUES[0].name
CELERY_TASK_QUEUES = tuple(Queue(name, routing_key=name) for name in FIREDOOR_QUEUES)
CELERY_TASK_CREATE_MISSING_QUEUES = False  # a misspelt queue fails at the publish
CELERY_TASK_SERIALIZER = CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = CELERY_RESULT_ACCEPT_CONTENT = ["json"]
CELERY_RESULT_BACKEND = "config.results:FailedEnvelopes"  # never the truth about a job
CELERY_RESULT_EXTENDED = True
CELERY_RESULT_EXPIRES = 7 * 24 * 3600
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_STORE_ERRORS_EVEN_IF_IGNORED = True
CELERY_WORKER_PROC_ALIVE_TIMEOUT = 30  # a replaced child on a busy machine needs more than 4 s
# What an author's library leaks is given back. Not often: the others stand still while one forks.
CELERY_WORKER_MAX_TASKS_PER_CHILD = 10_000
CELERY_WORKER_MAX_MEMORY_PER_CHILD = 400_000  # kB, looked at between two jobs
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False  # never SIGTERM an apply
CELERY_DB_REUSE_MAX = 10**9  # Celery closes connections around every task otherwise
CELERY_BEAT_SCHEDULER = "jobs.beat:UpkeepScheduler"
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True

# --- Files: uploads are private (plan files) and never served
STATIC_URL = "static/"
STATICFILES_DIRS = [ROOT / "config" / "console" / "static"]
MEDIA_ROOT = ENV.var / "media"
FILE_UPLOAD_PERMISSIONS = 0o600
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o700
STATIC_FILES = "django.contrib.staticfiles.storage.StaticFilesStorage"
if ENV.deployed:
    STATIC_ROOT = ENV.static_root
    STATIC_FILES = "whitenoise.storage.CompressedManifestStaticFilesStorage"
else:
    WHITENOISE_USE_FINDERS = True  # serves without collectstatic
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": STATIC_FILES},
}

# --- Security
SECRET_KEY = ENV.secret_key
DEBUG = ENV.debug
ALLOWED_HOSTS = list(ENV.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(ENV.csrf_trusted_origins)
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENV.deployed
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if ENV.deployed else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = ENV.deployed
SILENCED_SYSTEM_CHECKS = ["security.W021"]  # preload binds a whole domain: its owner decides
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    },
}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "admin:login"
REST_FRAMEWORK = {  # a view that forgets to say who may call it refuses everybody
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Firedoor",
    "DESCRIPTION": "Jobs that are recovered when they fail: enqueued, watched, retried, explained.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "JobState": [state.value for state in states.State],
        "StepState": [state.value for state in states.StepState],
        "AttemptOutcome": [outcome.value for outcome in states.AttemptOutcome],
        "Observation": [seen.value for seen in states.Observation],
        "OperationState": [state.value for state in states.OperationState],
        "ItemOutcome": [outcome.value for outcome in states.ItemOutcome],
        "Effect": [effect.value for effect in states.Effect],
        "EffectOutside": ["keyed", "once"],
        "Reached": ["yes", "maybe", "no"],
        "RetryMode": ["resume", "restart"],
        "EndpointState": ["active", "failing", "disabled"],
        "DeliveryStatus": ["pending", "sending", "succeeded", "dead", "cancelled", "skipped"],
    },
    "SCHEMA_PATH_PREFIX": "/api/v1/workspaces/[^/]+",
}

# --- Time, language, logs
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
FORMAT_MODULE_PATH = ["config.console.formats"]  # moments to the second, with their zone
LOGGING = logs.configure(ENV.log_level, ENV.log_format)
