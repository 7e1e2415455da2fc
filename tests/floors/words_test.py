"""Tests the check of words: the tree passes, and every old word is found where it is planted."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "words.py"

OLD = ["TERN_WAY=conv2d:winograd", "const ForcedWay way;", "a way of a kernel", "the lender of a mode", "the carriers",
       "few_rows", "conv2d:patches", "matmul:turned", "a turned weight", "folds a stride", "what it was decided from",
       "changed by chance", "as it was told", "what is asked for", "Whoever reads this"]


def check(root):
    done = subprocess.run([sys.executable, SCRIPT, "--root", root], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Words(unittest.TestCase):
    def test_tree(self):
        self.assertEqual(check(ROOT), (0, ""))

    def test_old_words(self):
        for old in OLD:
            with self.subTest(old=old), tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "page.md").write_text(f"A line.\n{old}\n")
                status, text = check(folder)
                self.assertEqual(status, 1)
                self.assertIn("page.md:2: ", text)

    def test_changelog(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "CHANGELOG.md").write_text("carrier\n")
            self.assertEqual(check(folder), (0, ""))

    def test_plain_words(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text("This way the tiles are folded, and the patches turned over.\n")
            self.assertEqual(check(folder), (0, ""))


if __name__ == "__main__":
    unittest.main()
