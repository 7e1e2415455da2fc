"""Tests the floors check: the tree passes, every planted upward include is located, the page shows the picture."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "floors.py"


def check(root, *options):
    done = subprocess.run([sys.executable, SCRIPT, "--root", root, *options], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class Floors(unittest.TestCase):
    def planted(self, file, line):
        """What the check says about a copy of the sources with one more line."""
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            for top in ("include", "src"):
                shutil.copytree(ROOT / top, copy / top)
            target = copy / file
            target.write_text(line + "\n" + target.read_text())
            return check(copy)

    def test_tree(self):
        self.assertEqual(check(ROOT), (0, ""))

    def test_climbs(self):
        for file, line, said in [
            ("src/tensor/tensor.cpp", '#include "tern/operators/arithmetic.hpp"', "operators stands above tensor"),
            ("include/tern/core/shape.hpp", '#include "tern/memory/memory.hpp"', "memory stands above core"),
            ("src/modes/device.cpp", '#include "run/recording.hpp"', "run stands above modes"),
            ("src/run/step.cpp", "#include <tern/tern.hpp>", "everything stands above run"),
            ("src/vectorized/mode.cpp", '#include "tern/tensor/tensor.hpp"', "a mode sees only"),
            ("src/cuda/memory.cu", '#include "sequential/functions.hpp"', "a mode sees only"),
            ("src/nn/linear.cpp", '#include "sequential/functions.hpp"', "nobody sees into a mode"),
            ("src/debug/card.cpp", '#include "sequential/functions.hpp"', "a mode sees only"),
            ("src/data/loader.cpp", '#include "tern/parallel/group.hpp"', "parallel stands above data"),
            ("src/operators/dot.cpp", 'const char* fast = "cuda";', 'names the mode "cuda"'),
        ]:
            with self.subTest(file=file):
                status, text = self.planted(file, line)
                self.assertEqual(status, 1)
                self.assertEqual(len(text.splitlines()), 1, text)
                self.assertIn(f"{file}:1: ", text)
                self.assertIn(said, text)

    def test_circle(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            for top in ("include", "src", "tools/tern"):
                shutil.copytree(ROOT / top, copy / top)
            (copy / "tools/tern/text.cpp").open("a").write('#include "model.hpp"\n')
            status, text = check(copy)
            self.assertEqual(status, 1)
            self.assertEqual(text, "tools/tern: blueprint includes text includes model includes blueprint\n")

    def test_new_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "src" / "attic").mkdir(parents=True)
            (pathlib.Path(folder) / "src" / "attic" / "a.cpp").write_text('#include "tern/core/error.hpp"\n')
            status, text = check(folder)
            self.assertEqual(status, 1)
            self.assertIn("attic is no floor", text)

    def test_nothing_to_check(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertNotEqual(check(folder)[0], 0)

    def test_picture(self):
        status, text = check(ROOT, "--picture")
        self.assertEqual(status, 0)
        self.assertIn(text, (ROOT / "docs" / "architecture.md").read_text(),
                      "docs/architecture.md does not show what scripts/floors.py --picture prints")


if __name__ == "__main__":
    unittest.main()
