"""Where the bytes of a released artifact live: in git itself, in git-lfs, or in DVC.

A store is a module of this package. It prepares what is committed and brings the bytes to a remote; what a commit
holds is read by `held`, whatever store is configured now.
"""

from __future__ import annotations

from artifactctl.stores import dvc_store, git_store, lfs_store
from artifactctl.stores.contract import Problem, Store
from artifactctl.stores.held import Holding, fetch, fetch_tagged, holds, read_tagged

__all__ = ["STORES", "Holding", "Problem", "Store", "fetch", "fetch_tagged", "holds", "read_tagged", "store_of"]

STORES: dict[str, Store] = {"git": git_store, "lfs": lfs_store, "dvc": dvc_store}


def store_of(name: str) -> Store:
    """By its name in release.store."""
    return STORES[name]
