"""``python -m harness``."""

from harness.cli import main

if __name__ == "__main__":  # the workload's processes import this module again
    main()
