// einsum, by a loop over all values of all letters.

#include <cctype>
#include <map>

#include "support/catalogue.hpp"
#include "tern/operators/einsum.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

struct Use {
  const char* equation;
  std::vector<Shape> shapes;
  const char* plain = "";  ///< the same with letters in place of "..." and with "->"
};

Array by_loops(const std::string& equation, const std::vector<Array>& in) {
  std::vector<std::string> terms{""};
  const std::size_t arrow = equation.find("->");
  for (const char letter : equation.substr(0, arrow))
    if (letter == ',')
      terms.emplace_back();
    else
      terms.back() += letter;
  const std::string result = equation.substr(arrow + 2);
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < terms.size(); ++i)
    for (std::size_t dim = 0; dim < terms[i].size(); ++dim) {
      std::int64_t& size = sizes[terms[i][dim]];
      size = std::max(size, in[i].shape[static_cast<int>(dim)]);
      if (in[i].shape[static_cast<int>(dim)] == 0) size = 0;
    }
  std::string letters;
  std::vector<std::int64_t> all;
  for (const auto& [letter, size] : sizes) letters += letter, all.push_back(size);
  const auto at = [&](const std::string& term, const std::vector<std::int64_t>& place, const Shape& shape) {
    Shape position;
    for (std::size_t dim = 0; dim < term.size(); ++dim)
      position.push_back(shape[static_cast<int>(dim)] == 1 ? 0 : place[letters.find(term[dim])]);
    return position;
  };
  Shape shape;
  for (const char letter : result) shape.push_back(sizes[letter]);
  Array out(shape);
  std::int64_t count = 1;
  for (const std::int64_t size : all) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> place(all.size());
    std::int64_t rest = i;
    for (std::size_t k = all.size(); k-- > 0; rest /= all[k]) place[k] = rest % all[k];
    double product = 1;
    for (std::size_t t = 0; t < terms.size(); ++t) product *= in[t].at(at(terms[t], place, in[t].shape));
    out.at(at(result, place, shape)) += product;
  }
  return out;
}

}  // namespace

std::vector<Operator> einsum_cases() {
  Operator op{.name = "einsum"};
  const auto add = [&](const Use& use, bool whole) {
    std::vector<Argument> arguments;
    double terms = 1;
    for (const Shape& shape : use.shapes) {
      arguments.push_back(whole ? integers(shape, -4, 4) : uniform(shape));
      terms = std::max(terms, static_cast<double>(element_count(shape)));
    }
    const std::string plain = *use.plain != 0 ? use.plain : use.equation;
    op.samples.push_back(
        {.name = message(use.equation, " of ", use.shapes[0], whole ? " whole numbers" : ""),
         .arguments = arguments,
         .call = [equation = std::string(use.equation)](
                     const std::vector<Tensor>& in) { return std::vector{op::einsum(equation, in)}; },
         .reference = [plain](const std::vector<Array>& in) { return std::vector{by_loops(plain, in)}; },
         .dtypes = whole ? std::vector<DType>{DType::int32, DType::int64} : compute_dtypes,
         .gradient = !whole,
         .exact = whole,
         .terms = whole ? 1 : terms,
         .gradient_terms = terms,
         // Products that read 16 bits round what is between them.
         .roundings = use.shapes.size() > 2 ? 2 : 1,
         .large_arguments = use.shapes.size() > 2 ? 1u : 2u});
  };
  const std::vector<Use> uses{{"ij,jk->ik", {{5, 7}, {7, 3}}},
                              {"ij,jk", {{5, 7}, {7, 3}}, "ij,jk->ik"},
                              {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}},
                              {"ij->ji", {{3, 4}}},
                              {"ba", {{3, 4}}, "ba->ab"},
                              {"ij->", {{3, 4}}},
                              {"ii->i", {{5, 5}}},
                              {"ii", {{4, 4}}, "ii->"},
                              {"iji->ij", {{3, 4, 3}}},
                              {"i,j->ij", {{4}, {3}}},
                              {"i,i->", {{9}, {9}}},
                              {"i,i->i", {{9}, {9}}},
                              {"ij,ij->i", {{3, 8}, {3, 8}}},
                              {"bqhd,bkhd->bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}}},
                              {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}}},
                              {"ij,ik,il->jkl", {{2, 3}, {2, 4}, {2, 5}}},
                              {"...ij,...jk->...ik", {{2, 3, 4}, {5, 1, 4, 2}}, "bij,abjk->abik"},
                              {"...ij, ...jk", {{2, 3, 4}, {2, 4, 2}}, "bij,bjk->bik"},
                              {"...i->...", {{2, 3, 4}}, "abi->ab"},
                              {"i...->...i", {{2, 3, 4}}, "iab->abi"},
                              {"ij,jk->ik", {{5, 1}, {7, 3}}},
                              {"ij,ij->ij", {{5, 1}, {1, 3}}},
                              {"ij,jk->ik", {{5, 0}, {0, 3}}},
                              {",ij->ij", {{}, {2, 3}}},
                              {"Ij,jA->IA", {{2, 3}, {3, 2}}}};
  for (const Use& use : uses) add(use, false);
  for (const std::size_t i : {0, 3, 6, 10, 13, 16, 20}) add(uses[i], true);
  const auto with = [](const char* equation, const Shape& a, const Shape& b) {
    return [=] { op::einsum(equation, {ones(a), ones(b)}); };
  };
  op.refuses("no tensors", Kind::shape, {"no tensors"}, [] { op::einsum("i->i", {}); });
  op.refuses("fewer terms", Kind::shape, {"1 terms for 2"}, with("ij", {2, 3}, {3, 4}));
  op.refuses("another rank", Kind::shape, {"ijk", "[2,3]"}, with("ijk,jk->i", {2, 3}, {3, 4}));
  op.refuses("two sizes", Kind::shape, {"3 and 4"}, with("ij,jk->ik", {2, 3}, {4, 5}));
  op.refuses("a letter of the result alone", Kind::shape, {"'z'"}, with("ij,jk->iz", {2, 3}, {3, 5}));
  op.refuses("a letter twice in the result", Kind::shape, {"twice"}, with("ij,jk->ii", {2, 3}, {3, 5}));
  op.refuses("no letter", Kind::shape, {"'?'"}, with("i?,jk->ik", {2, 3}, {3, 5}));
  op.refuses("no diagonal", Kind::shape, {"2 and 3"}, with("ii,jk->ik", {2, 3}, {3, 5}));
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] {
    op::einsum("ij,jk->ik", {ones({2, 3}), ones({3, 2}, DType::float64)});
  });
  return {op};
}

}  // namespace tern::testing
