"""Names that the injector writes into Pods and reads from them; source: docs/reference/injector.md, section 1."""

from typing import Final

from frameworkcontroller.api import names as fc

LABEL: Final = fc.BARRIER_LABEL
LABEL_VALUE: Final = "enabled"
# Of the PodTemplate by which the injector learns who calls it.
QUESTION: Final = "question"
WORD: Final = f"injector.{fc.GROUP}/word"
PREFIX: Final = f"barrier.{fc.GROUP}/"
STATUS: Final = f"{PREFIX}status"
# By which labels of nodes the controller orders ranks, and that the barrier of the Pod reads this order in the roster.
RANK_TOPOLOGY: Final = fc.RANK_TOPOLOGY_ANNOTATION
READS: Final = fc.BARRIER_READS_ANNOTATION
READS_ORDER: Final = fc.READS_ORDER

CONTAINER: Final = fc.BARRIER_CONTAINER
VOLUME: Final = "frameworkbarrier"
TOKEN_VOLUME: Final = "frameworkbarrier-token"  # noqa: S105 -- a volume's name
TEMPLATE_VOLUME: Final = "frameworkbarrier-template"
CODE_VOLUME: Final = "frameworkcode"
ARCHIVE_VOLUME: Final = "frameworkcode-archive"
PROGRESS_VOLUME: Final = "frameworkprogress"

TEMPLATE_DIR: Final = "/etc/frameworkbarrier/templates"
ARCHIVE_DIR: Final = "/etc/frameworkbarrier/code"
# A mount at exactly this path keeps the ServiceAccount admission plugin from mounting a token of its own.
TOKEN_DIR: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 -- a path
HOSTS_PATH: Final = "/etc/hosts"

# What the injector tells the barrier's scripts in a container (frameworkbarrier.files.environment,
# frameworkbarrier.files.render).
VARIABLES: Final = "FB_VARIABLES"
RUN: Final = "FB_RUN"
# What a program of the user reads: the file, and the port, by which it says how far it is.
PROGRESS: Final = "FB_PROGRESS"
PROGRESS_PORT: Final = "FB_PROGRESS_PORT"

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
