"""The variables that each preset of the barrier can set: ``fileKeyRef`` must name them in the Pod in advance.

Source: the barrier's specification, section 3. A test compares this table with what the barrier really writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Preset(StrEnum):
    """A set of variables that one training framework reads."""

    TENSORFLOW = "tensorflow"
    PYTORCH = "pytorch"
    JAX = "jax"
    MPI = "mpi"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that the barrier writes.

    An optional one may be absent from its file, and the container starts without it; the others are always there, and a
    container that should get one and cannot does not start.
    """

    name: str
    optional: bool = False


# TF_CONFIG grows with the gang; where it would not fit into a variable, TF_CONFIG_FILE names a file that holds it.
_TENSORFLOW: Final = (Variable("TF_CONFIG", optional=True), Variable("TF_CONFIG_FILE", optional=True))
# A Task of a role that has no rank (a dashboard beside the workers) gets everything but the rank.
_RANKS: Final = frozenset({"RANK", "PET_NODE_RANK", "JAX_PROCESS_ID"})
_PYTORCH: Final = tuple(
    Variable(name, optional=name in _RANKS)
    for name in (
        "MASTER_ADDR",
        "MASTER_PORT",
        "WORLD_SIZE",
        "RANK",
        "PET_NNODES",
        "PET_NODE_RANK",
        "PET_NPROC_PER_NODE",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
        "PET_RDZV_ENDPOINT",
    )
)
_JAX: Final = tuple(
    Variable(name, optional=name in _RANKS)
    for name in ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
)
_MPI: Final = tuple(
    Variable(name)
    for name in (
        "OMPI_MCA_orte_default_hostfile",
        "PRTE_MCA_prte_default_hostfile",
        "I_MPI_HYDRA_HOST_FILE",
        "HYDRA_HOST_FILE",
    )
)

VARIABLES: Final[Mapping[Preset, tuple[Variable, ...]]] = {
    Preset.TENSORFLOW: _TENSORFLOW,
    Preset.PYTORCH: _PYTORCH,
    Preset.JAX: _JAX,
    Preset.MPI: _MPI,
}


def variables(presets: Iterable[Preset]) -> tuple[Variable, ...]:
    """The variables of several presets, in their order, each once."""
    by_name = {variable.name: variable for preset in presets for variable in VARIABLES[preset]}
    return tuple(by_name.values())
