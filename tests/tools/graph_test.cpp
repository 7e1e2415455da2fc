// `tern graph` as a user runs it.

#include "process.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;

TEST_CASE("graph: networks and models as text, drawing and program", "[tools][graph]") {
  const TemporaryFolder folder;
  const auto graph = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "graph");
    return tern(words, {.folder = folder.path()});
  };
  const Outcome lenet = graph({"--net", "lenet"});
  REQUIRE(lenet.code == 0);
  CHECK_THAT(lenet.out, ContainsSubstring("input x float32[{n},1,28,28]\n"));
  CHECK_THAT(lenet.out, ContainsSubstring("= max_pool2d(%0) kernel=2x2"));
  CHECK_THAT(graph({"--net", "lenet", "--passes", "inference"}).out, ContainsSubstring("= conv2d_max_pool2d(x, "));
  CHECK(graph({"--net", "resnet18", "--format", "svg", "--out", "net.svg"}).code == 0);
  CHECK_THAT(read_bytes(folder / "net.svg"), ContainsSubstring("<svg ") && ContainsSubstring(">batch_norm<"));

  write_bytes(folder / "c.csv", "1,2,a\n2,3,b\n1,2,a\n2,3,b\n1,1,a\n4,4,b\n1,2,a\n2,3,b\n1,2,a\n2,3,b\n");
  REQUIRE(tern({"train", "--dataset", "c.csv", "--epochs", "1", "--run", "m"}, {.folder = folder.path()}).code == 0);
  CHECK_THAT(graph({"--model", "m"}).out, ContainsSubstring("= linear(x, "));
  CHECK(graph({"--model", "m", "--format", "program", "--out", "m.tern"}).code == 0);
  CHECK(read_bytes(folder / "m.tern").size() > 100);
  CHECK(graph({"--model", "m.tern", "--format", "operators"}).out == "linear\nrelu\n");

  CHECK(graph({}).code == 2);
  CHECK(graph({"--net", "lenet", "--model", "m"}).code == 2);
  CHECK_THAT(graph({"--net", "lenet", "--format", "program"}).err, ContainsSubstring("--out is missing"));
}

}  // namespace tern::testing
