#!/usr/bin/env python3
"""The defaults of `tern train` on tables with numbers to be met, words and holes, beside scikit-learn's MLP and its
HistGradientBoosting, over splits of the same rows. Prints a Markdown table.

Each split draws a fifth of the rows (of every class) for the test. Tern gets the other rows as a CSV file and no option
that decides how it trains, but `--missing mean` where values are missing and `--categorical` for categories that are
digits. scikit-learn's MLP gets them standardised, holes filled with the mean or the most frequent category, categories
one-hot, and a standardised target; HistGradientBoosting gets categories and holes as they are. All one thread.

Needs scikit-learn and pyreadr (pip), and from Debian r-cran-mlbench; its data may lie elsewhere (--mlbench).
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
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def tables(options):
    """(name, features, target, whether it is a regression) of every available table."""
    def whole(load):
        return load(return_X_y=True, as_frame=True)
    yield "diabetes (progression)", *whole(datasets.load_diabetes), True
    features, target = whole(datasets.load_wine)
    yield "wine (its alcohol)", features.drop(columns="alcohol"), features["alcohol"], True
    for name, make in (("friedman 1", datasets.make_friedman1(1000, noise=1, random_state=0)),
                       ("friedman 2", datasets.make_friedman2(1000, noise=100, random_state=0)),
                       ("friedman 3", datasets.make_friedman3(1000, noise=0.1, random_state=0))):
        yield name, pandas.DataFrame(make[0]).add_prefix("x"), pandas.Series(make[1]), True
    for name, load in (("iris", datasets.load_iris), ("wine", datasets.load_wine),
                       ("breast cancer", datasets.load_breast_cancer), ("digits", datasets.load_digits)):
        yield name, *whole(load), False
    for name, file, target, regression in (("servo", "Servo", "Class", True), ("ozone", "Ozone", "V4", True),
                                           ("housing", "BostonHousing", "medv", True),
                                           ("pima", "PimaIndiansDiabetes2", "diabetes", False),
                                           ("votes", "HouseVotes84", "Class", False),
                                           ("soybean", "Soybean", "Class", False), ("zoo", "Zoo", "type", False)):
        path = pathlib.Path(options.mlbench) / f"{file}.rda"
        if not path.exists():
            print(f"left out: {path} is not there (apt install r-cran-mlbench)", file=sys.stderr)
            continue
        import pyreadr
        frame = next(iter(pyreadr.read_r(str(path)).values())).dropna(subset=target)
        labels = frame.pop(target)
        if regression:
            labels = pandas.to_numeric(labels.astype(str))
        for column in frame.columns:  # factors are categories, except booleans
            if frame[column].dtype == bool:
                frame[column] = frame[column].astype(int)
            elif not pandas.api.types.is_numeric_dtype(frame[column]):
                frame[column] = frame[column].astype("object")
        yield name, frame.reset_index(drop=True), labels.reset_index(drop=True), regression


def words_in(features):
    return [column for column in features if features[column].dtype == object]


def run_tern(options, folder, train, test, regression, seed):
    for name, (features, target) in (("train", train), ("test", test)):
        target = target if regression else [f"c{label}" for label in target]
        features.assign(target=target).to_csv(folder / f"{name}.csv", index=False, na_rep="NA")
    command = [options.tern, "train", "--dataset", folder / "train.csv", "--validation", "0", "--seed", str(seed + 1),
               "--run", folder / "run", "--mode", "vectorized", "--threads", "1", "--quiet"]
    features = train[0]
    if pandas.concat([train[0], test[0]]).isna().any().any():
        command += ["--missing", "mean"]
    digits = [column for column in words_in(features)
              if pandas.to_numeric(features[column], errors="coerce").notna().any()]
    if digits:
        command += ["--categorical", ",".join(digits)]
    subprocess.run(command + options.options.split(), check=True, capture_output=True)
    tested = subprocess.run([options.tern, "test", "--model", folder / "run", "--dataset", folder / "test.csv",
                             "--format", "json"], check=True, capture_output=True, text=True)
    figures = json.loads(tested.stdout)
    return figures["r2" if regression else "accuracy"]


def run_peers(train, test, regression, seed):
    words = words_in(train[0])
    numbers = [column for column in train[0] if column not in words]
    ready = ColumnTransformer([
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        ("words", make_pipeline(SimpleImputer(strategy="most_frequent", missing_values=numpy.nan),
                                OneHotEncoder(handle_unknown="ignore", sparse_output=False)), words)])
    if regression:
        net = TransformedTargetRegressor(make_pipeline(ready, MLPRegressor(random_state=seed)),
                                         transformer=StandardScaler())
        trees = HistGradientBoostingRegressor(random_state=seed, categorical_features="from_dtype")
    else:
        net = make_pipeline(ready, MLPClassifier(random_state=seed))
        trees = HistGradientBoostingClassifier(random_state=seed, categorical_features="from_dtype")
    kinds = {column: pandas.CategoricalDtype(sorted(train[0][column].dropna().unique())) for column in words}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 200 iterations are its default, which it warns are not enough
        net.fit(*train)
        trees.fit(train[0].astype(kinds), train[1])
    return net.score(*test), trees.score(test[0].astype(kinds), test[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("tern", help="the program, such as build/tools/tern")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", default="", help="names of tables, with commas")
    parser.add_argument("--options", default="", help="further options of tern train, to try them")
    parser.add_argument("--mlbench", default="/usr/lib/R/site-library/mlbench/data",
                        help="folder of mlbench's .rda files")
    options = parser.parse_args()
    print("| table | rows x columns, of words, missing | figure | Tern | MLP | difference | HistGradientBoosting | "
          "difference |\n|---|---|---|---|---|---|---|---|", flush=True)
    behind = []
    for name, features, target, regression in tables(options):
        if options.only and name not in options.only.split(","):
            continue
        figures = []
        for split in range(options.splits):
            parts = train_test_split(features, target, test_size=0.2, random_state=split,
                                     stratify=None if regression else target)
            train, test = (parts[0], parts[2]), (parts[1], parts[3])
            with tempfile.TemporaryDirectory() as place:
                ours = run_tern(options, pathlib.Path(place), train, test, regression, split)
            figures.append((ours, *run_peers(train, test, regression, split)))
        ours, net, trees = numpy.mean(figures, axis=0)
        spread = numpy.std(figures, axis=0)
        if ours < 0.97 * net or ours < 0.9 * trees:
            behind.append(name)
        shown = [f"{mean:.4f} ± {deviation:.4f}" for mean, deviation in zip((ours, net, trees), spread)]
        print(f"| {name} | {features.shape[0]} x {features.shape[1]}, {len(words_in(features))}, "
              f"{int(features.isna().sum().sum())} | {'R2' if regression else 'accuracy'} | {shown[0]} | {shown[1]} "
              f"| {ours - net:+.4f} | {shown[2]} | {ours - trees:+.4f} |", flush=True)
    print(f"\nMore than 3 % behind the MLP, or 10 % behind HistGradientBoosting: {', '.join(behind) or 'none'}.")


main()
