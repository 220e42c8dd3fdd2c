"""``python -m flywheel.cli``, where the script ``flywheel`` is not on the path."""

from flywheel.cli import main

main(prog_name="flywheel")
