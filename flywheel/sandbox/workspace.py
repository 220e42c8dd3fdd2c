"""What a command works on: a folder as it is, with files put over it."""

import io
import os
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from msgspec import Struct

from flywheel.errors import SandboxError

EXECUTABLE, PLAIN = 0o755, 0o644
Filter = Callable[[tarfile.TarInfo], tarfile.TarInfo | None]


class Workspace(Struct, frozen=True, kw_only=True):
    """A folder, and what is put over it, by paths in it. Nothing of it is ever changed: commands get copies.

    ``files`` has contents, or a path to take the file or link from as it is; None takes one away. ``excluded`` are
    names of files and folders to be left out wherever they are.
    """

    folder: Path | None = None
    files: Mapping[str, str | bytes | Path | None] = {}
    excluded: tuple[str, ...] = ()

    def write_tar(self, out: IO[bytes]) -> None:
        """The whole as a tar stream. Links stay links; devices and sockets are left out.

        Raises:
            SandboxError: a part of the folder cannot be read.
        """
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            if self.folder is not None:
                self._add_folder(archive, self.folder)
            for path, content in self.files.items():
                if isinstance(content, Path):
                    self._add(archive, content, path)
                elif content is not None:
                    self._add_file(archive, path, content.encode() if isinstance(content, str) else content)

    def _add_folder(self, archive: tarfile.TarFile, folder: Path) -> None:
        def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
            if member.name in self.files or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                return None
            return None if os.path.basename(member.name) in self.excluded else member

        for entry in sorted(os.listdir(folder)):
            self._add(archive, folder / entry, entry, wanted)

    @staticmethod
    def _add(archive: tarfile.TarFile, source: Path, name: str, wanted: Filter | None = None) -> None:
        try:
            archive.add(source, arcname=name, filter=wanted)
        except BrokenPipeError:
            raise  # nobody reads any more
        except OSError as error:
            raise SandboxError(f"the workspace cannot be copied: {error}") from error

    def _add_file(self, archive: tarfile.TarFile, path: str, content: bytes) -> None:
        before = self.folder / path if self.folder else None
        executable = os.access(before, os.X_OK) if before and before.is_file() else content.startswith(b"#!")
        member = tarfile.TarInfo(path)
        member.size = len(content)
        member.mtime = time.time()  # or what was built from the file before would be taken for newer
        member.mode = EXECUTABLE if executable else PLAIN
        archive.addfile(member, io.BytesIO(content))
