"""The Hugging Face hub: folders that were written here go there (extra: hub)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elmo.errors import UserError
from elmo.runtime import require_extra


def push_folder(folder: Path, repo: str, *, private: bool = False, token: str | None = None) -> str:
    """Upload a model or classifier folder; returns its address."""
    hub: Any = require_extra("huggingface_hub", "hub")
    if repo.count("/") != 1:
        raise UserError(f"repo: expected a name such as 'user/model', got {repo!r:.60}")
    api = hub.HfApi(token=token, library_name="elmo")
    try:
        address = api.create_repo(repo, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message="Upload with elmo")
    except Exception as error:  # of the hub, of its HTTP client, of the system
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"{repo}: not uploaded ({reason}); log in with `hf auth login`, or pass token=…"
        ) from error
    return str(address)
