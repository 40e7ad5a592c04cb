"""fairseq-train for torchrun; imported by this package, fairseq does without scikit-learn and SciPy."""

from fairseq_cli.train import cli_main

if __name__ == "__main__":
    cli_main()
