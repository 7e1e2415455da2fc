// A program that has set its user's locale, as graphical programs do, writes and reads the same bytes.

#include <clocale>
#include <locale>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/data/csv.hpp"
#include "tern/io/checkpoint.hpp"
#include "tern/io/npy.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/nn/nn.hpp"
#include "tern/optim/optim.hpp"
#include "tern/tensor/create.hpp"

namespace tern::io {

using namespace testing;

namespace {

struct Points : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
  std::string do_truename() const override { return "wahr"; }
};

/// 1234.5 is 1.234,5 while it lives.
class Hostile {
 public:
  Hostile() : before_(std::locale::global(std::locale(std::locale::classic(), new Points))) {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"})
      if (std::setlocale(LC_NUMERIC, name) != nullptr) break;
  }
  ~Hostile() {
    std::setlocale(LC_ALL, "C");
    std::locale::global(before_);
  }

 private:
  std::locale before_;
};

}  // namespace

TEST_CASE("locale: files are the same bytes", "[io]") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name) {
    const Tensor large = ones({1234, 2});
    save_safetensors(folder / (name + ".safetensors"), {{"a", large}}, {{"steps", message(12345, ' ', 0.5)}});
    save_npy(folder / (name + ".npy"), large);
    save_npz(folder / (name + ".npz"), {{"a", large}});
    save_checkpoint(folder / name, {.tensors = {{"a", large}}, .step = 12345}, 3);
  };
  write("plain");
  {
    const Hostile locale;
    write("hostile");
    CHECK(load_safetensors(folder / "plain.safetensors").tensors.at("a").shape() == Shape{1234, 2});
    CHECK(load_npy(folder / "plain.npy").shape() == Shape{1234, 2});
  }
  for (const char* ending : {".safetensors", ".npy", ".npz"})
    CHECK(read_bytes(folder / (std::string("plain") + ending)) ==
          read_bytes(folder / (std::string("hostile") + ending)));
  const auto resumed = resume_checkpoint(folder / "hostile");
  REQUIRE(resumed.has_value());
  CHECK(resumed->checkpoint.step == 12345);
}

TEST_CASE("locale: names, messages and printed numbers are the same", "[io]") {
  const auto words = [] {
    std::string text = message(1234567, ' ', 1234.5, ' ', true, ' ', Shape{1000, 2});
    text += to_string(tensor({1234.5f, 0.25f})) + to_string(tensor({1e9f, 0.5f})) + to_string(tensor({1000.0f, 2.0f}));
    nn::Linear net(1000, 1234);
    text += net.describe() + nn::summary(net, {1, 1000}).text();
    try {
      (void)net(ones({1, 1001}));
    } catch (const Error& error) {
      text += error.what();
    }
    // The 1,000th parameter's state has a name of its own.
    std::vector<Tensor> many;
    for (int i = 0; i < 1002; ++i) many.push_back(zeros({1}).set_requires_grad());
    optim::Adam adam(many, {});
    for (const Tensor& one : many) one.sum().backward();
    adam.step();
    for (const auto& [name, tensor] : adam.state()) text += name + "\n";
    const data::Table table = data::parse_csv(as_bytes("a,k\n1234.5,x\n2,y\n"), "t.csv");
    return text + message(table.features.values()[0]);
  };
  const std::string plain = words();
  const Hostile locale;
  CHECK(words() == plain);
}

TEST_CASE("errors: names of any length are cut", "[io]") {
  const std::string name(1 << 20, 'x');
  const std::string text = said<FileError>([&] { load_npy("/nowhere/" + name + "/a.npy"); });
  CHECK(text.size() < 2500);
  CHECK(text.starts_with("/nowhere/xxx"));
  const std::string lines = FileError("first\n" + name + "\nlast").what();
  CHECK(lines.size() < 2500);
  CHECK(lines.starts_with("first\nx"));
  CHECK(lines.ends_with("x\nlast"));
  std::string wide;
  while (wide.size() < 5000) wide += "\xc3\xa9";
  const std::string cut = FileError("a" + wide).what();  // between characters
  for (std::size_t i = 1; i + 1 < cut.size(); ++i)
    if (cut[i] == '\xc3') CHECK(cut[i + 1] == '\xa9');
}

}  // namespace tern::io
