"""Coverage-guided fuzzing of the readers: `python -m tests.fuzz.guided --seconds 60`.

Needs atheris: pip install "headway[fuzz]".
"""

import argparse
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Reads the command line; ends with a non-zero code at the first finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long (default 60)")
    parser.add_argument("--corpus", help="folder of inputs, kept and added to; default: none")
    given = parser.parse_args()
    import atheris

    with atheris.instrument_imports(include=["headway"]):
        from tests.fuzz.readers import read, seeds
    corpus = Path(given.corpus or tempfile.mkdtemp())
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [f"-max_total_time={given.seconds}", "-max_len=4096", "-timeout=10"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
