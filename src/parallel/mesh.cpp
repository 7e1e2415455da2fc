#include "tern/parallel/mesh.hpp"

#include "tern/core/error.hpp"

namespace tern::parallel {

namespace {

int checked(const Group& group, int model) {
  expects<ShapeError>(model >= 1 && group.size() % model == 0, "Mesh: ", group.size(),
                      " ranks are not divided into copies of a model of ", model, " ranks each");
  return model;
}

}  // namespace

Mesh::Mesh(const Group& group, int copy)
    : model(group.split(group.rank() / checked(group, copy))), data(group.split(group.rank() % copy)) {}

}  // namespace tern::parallel
