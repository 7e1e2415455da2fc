#!/usr/bin/env python3
"""The default of `tern train` for tables beside scikit-learn's scaled MLPClassifier: accuracy and loss on rows that
neither has seen, over splits and seeds, run by run in turns. Prints a Markdown page.

Each split draws a fifth of every class for the test. Tern gets the other rows as a table of its own and, beside
`--validation 0` (the test rows are held out already), no option that decides how it trains; the rows that it sets aside
for early stopping are among those. scikit-learn gets the same rows, standardised; both one thread.

Needs scikit-learn and pyreadr (pip), and from Debian r-cran-mlbench; its data may lie elsewhere (--mlbench). Two more
tables of the UCI repository are read from --csv: banknote_authentication.csv and wheat-seeds.csv, the class last,
without a header; they are left out, aloud, where they are not there.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy
import pandas
from sklearn import datasets
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


nine = "iris,banknote,sonar,wheat seeds,breast cancer,wine,digits,diabetes,ionosphere"


def tables(options):
    """(name, features, labels) of every available table."""
    for name, load in (("iris", datasets.load_iris), ("wine", datasets.load_wine),
                       ("breast cancer", datasets.load_breast_cancer), ("digits", datasets.load_digits)):
        yield name, *load(return_X_y=True)
    for name, file in (("banknote", "banknote_authentication.csv"), ("wheat seeds", "wheat-seeds.csv")):
        path = pathlib.Path(options.csv) / file
        if not path.exists():
            print(f"left out: {path} is not there", file=sys.stderr)
            continue
        frame = pandas.read_csv(path, header=None)
        yield name, frame.iloc[:, :-1].to_numpy(float), pandas.factorize(frame.iloc[:, -1])[0]
    for name, file in (("sonar", "Sonar"), ("diabetes", "PimaIndiansDiabetes"), ("ionosphere", "Ionosphere"),
                       ("glass", "Glass"), ("vehicle", "Vehicle"), ("vowel", "Vowel"), ("zoo", "Zoo"),
                       ("cytology", "BreastCancer"), ("satellite", "Satellite"), ("dna", "DNA"),
                       ("letters", "LetterRecognition")):
        path = pathlib.Path(options.mlbench) / f"{file}.rda"
        if not path.exists():
            print(f"left out: {path} is not there (apt install r-cran-mlbench)", file=sys.stderr)
            continue
        import pyreadr
        frame = next(iter(pyreadr.read_r(str(path)).values())).drop(columns="Id", errors="ignore").dropna()
        labels = frame.pop("lettr" if name == "letters" else frame.columns[-1])
        frame = frame.drop(columns="V1") if name == "vowel" else frame  # the speaker
        yield name, frame.apply(pandas.to_numeric).to_numpy(float), pandas.factorize(labels)[0]


def write_csv(path, features, labels):
    frame = pandas.DataFrame(features, columns=[f"x{i}" for i in range(features.shape[1])])
    frame["class"] = [f"c{label}" for label in labels]
    frame.to_csv(path, index=False)


def run_tern(options, folder, split, seed):
    run = folder / f"run{seed}"
    train = [options.tern, "train", "--dataset", folder / "train.csv", "--validation", "0", "--split", str(split),
             "--seed", str(seed), "--run", run, "--mode", "vectorized", "--threads", "1", "--quiet"]
    subprocess.run(train, check=True, capture_output=True)
    test = [options.tern, "test", "--model", run, "--dataset", folder / "test.csv", "--format", "json"]
    tested = subprocess.run(test, check=True, capture_output=True, text=True)
    figures = json.loads(tested.stdout)
    return figures["accuracy"], figures["loss"]


def run_peer(train, test, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 200 iterations are its default, which it warns are not enough
        model = make_pipeline(StandardScaler(), MLPClassifier(random_state=seed)).fit(*train)
    return model.score(*test), log_loss(test[1], model.predict_proba(test[0]), labels=model.classes_)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("tern", help="the program, such as build/tools/tern")
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--first-split", type=int, default=0, help="the number that draws the first of them")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default=nine, help="names of tables, with commas")
    parser.add_argument("--csv", default=".", help="folder of banknote_authentication.csv and wheat-seeds.csv")
    parser.add_argument("--mlbench", default="/usr/lib/R/site-library/mlbench/data",
                        help="folder of mlbench's .rda files")
    parser.add_argument("--label", default="", help="machine and commit, for the head of the page")
    options = parser.parse_args()
    print("# Tables beside scikit-learn\n")
    print("`tern train` without options beside `MLPClassifier` of scikit-learn on standardised columns: "
          f"{options.splits} splits x {options.seeds} seeds, a fifth of the rows for the test, the same rows on both "
          f"sides. Mean and standard deviation; accuracy in %, loss in nats.\n\n{options.label}\n")
    print("Command: `" + " ".join(["python3 benchmarks/peers/tables.py"] + sys.argv[1:]) + "`\n")
    print("| table | rows x columns, classes | accuracy, Tern | scikit-learn | difference "
          "| loss, Tern | scikit-learn |")
    print("|---|---|---|---|---|---|---|", flush=True)
    behind = []
    for name, features, labels in tables(options):
        if name not in options.only.split(","):
            continue
        ours, theirs = [], []
        for split in range(options.first_split, options.first_split + options.splits):
            train_x, test_x, train_y, test_y = train_test_split(features, labels, test_size=0.2, stratify=labels,
                                                                random_state=split)
            with tempfile.TemporaryDirectory() as place:
                folder = pathlib.Path(place)
                write_csv(folder / "train.csv", train_x, train_y)
                write_csv(folder / "test.csv", test_x, test_y)
                for seed in range(options.seeds):
                    ours.append(run_tern(options, folder, split, seed))
                    theirs.append(run_peer((train_x, train_y), (test_x, test_y), seed))
        (accuracy, loss), (peer_accuracy, peer_loss) = numpy.mean(ours, axis=0), numpy.mean(theirs, axis=0)
        spread, peer_spread = numpy.std(ours, axis=0), numpy.std(theirs, axis=0)
        if accuracy < peer_accuracy - 0.01 or loss >= peer_loss:
            behind.append(name)
        print(f"| {name} | {features.shape[0]} x {features.shape[1]}, {len(set(labels))} "
              f"| {100 * accuracy:.2f} ± {100 * spread[0]:.2f} "
              f"| {100 * peer_accuracy:.2f} ± {100 * peer_spread[0]:.2f} | {100 * (accuracy - peer_accuracy):+.2f} "
              f"| {loss:.4f} ± {spread[1]:.4f} | {peer_loss:.4f} ± {peer_spread[1]:.4f} |", flush=True)
    print(f"\nMore than a point of accuracy behind, or not below in loss: {', '.join(behind) or 'none'}.")


main()
