"""Tests the writer of tern_single.hpp: what it takes, and each mistake that it must name."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "single_header.py"


class SingleHeader(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for part in ("include", "src", "scripts/single"):
            shutil.copytree(ROOT / part, self.root / part)
        shutil.copy(ROOT / "LICENSE", self.root)

    def tearDown(self):
        self.folder.cleanup()

    def plant(self, name, text):
        (self.root / name).write_text(text)

    def written(self):
        out = self.root / "tern_single.hpp"
        done = subprocess.run([sys.executable, SCRIPT, "--root", self.root, out], capture_output=True, text=True,
                              check=False)
        return done.returncode, out.read_text() if done.returncode == 0 else done.stderr

    def refused(self, words):
        status, text = self.written()
        self.assertEqual(status, 1)
        self.assertIn(words, text)

    def test_each_file_once(self):
        status, text = self.written()
        self.assertEqual(status, 0, text)
        names = re.findall(r"^// ---- (\S+)$", text, re.M)
        self.assertEqual(len(names), len(set(names)))
        for folder in ("core", "tensor", "autograd", "operators", "optim", "sequential"):
            for file in (self.root / "src" / folder).glob("*.?pp"):
                self.assertIn(f"src/{folder}/{file.name}", names)
        self.assertNotIn('#include "', text.replace('//     #include "tern_single.hpp"', ""))
        # Tables of vectorized are named where they lie: the macros find those of several instruction sets.
        self.assertIsNone(re.search(r"^(HWY_EXPORT|TERN_DISPATCHED)\(", text, re.M))

    def test_unused(self):
        self.plant("src/operators/lonely.hpp", "#pragma once\n")
        self.refused("never used: src/operators/lonely.hpp")

    def test_circle(self):
        self.plant("src/operators/a_circle.hpp", '#pragma once\n#include "operators/b_circle.hpp"\n')
        self.plant("src/operators/b_circle.hpp", '#pragma once\n#include "operators/a_circle.hpp"\n')
        self.plant("src/operators/circle.cpp", '#include "operators/a_circle.hpp"\n')
        self.refused("includes in a circle: ")

    def test_names_that_meet(self):
        for name in ("first", "second"):
            self.plant(f"src/operators/planted_{name}.cpp",
                       "namespace tern {\nnamespace {\nstruct Planted {\n  int of = 0;\n};\n}  // namespace\n"
                       f'int {name}() {{ return Planted{{1}}.of + other::Planted + int(sizeof("Planted")); }}\n'
                       "}  // namespace tern\n")
        status, text = self.written()
        self.assertEqual(status, 0, text)
        self.assertIn('int first() { return Planted{1}.of + other::Planted + int(sizeof("Planted")); }', text)
        self.assertIn('int second() { return Planted_of_planted_second{1}.of + other::Planted + '
                      'int(sizeof("Planted")); }', text)

    def test_what_stays_out(self):
        self.plant("src/operators/reads.cpp", '#include "tern/nn/load.hpp"\n')
        self.refused("src/operators/reads.cpp includes tern/nn/load.hpp, which stays out")

    def test_condition(self):
        self.plant("src/operators/maybe.cpp", '#if 1\n#include "tern/data/csv.hpp"\n#endif\n')
        self.refused("src/operators/maybe.cpp:2: includes tern/data/csv.hpp under a condition")


if __name__ == "__main__":
    unittest.main()
