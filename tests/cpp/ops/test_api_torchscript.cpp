// The operators in TorchScript without Python: compiled from source, run, differentiated, saved and loaded.
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/script.h>

#include <sstream>

#include "direct.h"

namespace torch_hrr::testing {
namespace {

// Python's front end spells an operator torch.ops.torch_hrr.bind; a C++ program gives the name torch_hrr its meaning.
struct OperatorResolver : torch::jit::Resolver {
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name, torch::jit::GraphFunction& function,
                                                         const torch::jit::SourceRange& location) override {
    if (name == "torch_hrr") {
      return std::make_shared<torch::jit::BuiltinModule>(name);
    }
    return torch::jit::nativeResolver()->resolveValue(name, function, location);
  }
};

std::shared_ptr<torch::jit::CompilationUnit> compile(const std::string& source) {
  auto unit = std::make_shared<torch::jit::CompilationUnit>();
  unit->define(std::nullopt, source, std::make_shared<OperatorResolver>(), nullptr);
  return unit;
}

TEST(TorchScript, FunctionsCallTheOperators) {
  const auto unit = compile(R"(
def record(a, b, weights):
    return torch_hrr.bind_superpose(a, b, weights, True)

def query(bound, role):
    return torch_hrr.unbind(bound, role)

def round_trip(a, b):
    return torch_hrr.unbind(torch_hrr.bind(a, b), b)
)");
  const Tensor a = random({3, 64}, 1);
  const Tensor b = random({3, 64}, 2);
  const Tensor weights = random({3}, 3);
  EXPECT_TRUE(same_bits(unit->run_method("record", a, b, weights).toTensor(), bind_superpose(a, b, weights, true)));
  EXPECT_TRUE(same_bits(unit->run_method("query", a, b).toTensor(), unbind(a, b)));
  EXPECT_TRUE(same_bits(unit->run_method("round_trip", a, b).toTensor(), unbind(bind(a, b), b)));
}

TEST(TorchScript, FunctionsCallTheEncodings) {
  const auto unit = compile(R"(
def encode(positions):
    return torch_hrr.sinusoidal_encoding(positions, 6, 100.0)

def features(positions, frequencies):
    return torch_hrr.sinusoidal_features(positions, frequencies, None, "half")

def embed(tokens, table):
    return torch_hrr.embed_positions(tokens, table, None, 2)
)");
  const Tensor positions = at::arange(4);
  const Tensor frequencies = random({3}, 1);
  const Tensor table = random({4, 6}, 2);
  EXPECT_TRUE(same_bits(unit->run_method("encode", positions).toTensor(), sinusoidal_encoding(positions, 6, 100)));
  EXPECT_TRUE(same_bits(unit->run_method("features", positions, frequencies).toTensor(),
                        sinusoidal_features(positions, frequencies, std::nullopt, "half")));
  EXPECT_TRUE(same_bits(unit->run_method("embed", positions, table).toTensor(),
                        embed_positions(positions, table, std::nullopt, 2)));
}

torch::jit::Module make_module(const Tensor& roles) {
  torch::jit::Module module("roles");
  module.register_parameter("roles", roles.clone().requires_grad_(), /*is_buffer=*/false);
  module.define(R"(
    def forward(self, values):
        bound = torch_hrr.bind_normalize(self.roles, values, 1e-12)
        return torch_hrr.superpose(bound)
  )",
                std::make_shared<OperatorResolver>());
  return module;
}

TEST(TorchScript, ModulesTrain) {
  const Tensor roles = random({4, 100}, 4);
  const Tensor values = random({2, 4, 100}, 5);
  const Tensor upstream = random({2, 100}, 6);
  auto module = make_module(roles);
  // Several calls: the first ones profile, later ones run what the profile specialised.
  for (int call = 0; call < 3; ++call) {
    Tensor parameter = module.attr("roles").toTensor();
    parameter.mutable_grad() = Tensor();
    const Tensor result = module.forward({values}).toTensor();
    const Tensor definition_roles = roles.clone().requires_grad_();
    const Tensor definition =
        direct_normalize(direct_superpose(direct_normalize(direct_bind(definition_roles, values)), std::nullopt));
    EXPECT_LE(relative_error(result.detach(), definition.detach()), 1e-12);
    result.backward(upstream);
    definition.backward(upstream);
    EXPECT_LE(relative_error(parameter.grad(), definition_roles.grad()), 1e-11) << "call " << call;
  }
}

TEST(TorchScript, ModulesSaveAndLoad) {
  auto module = make_module(random({4, 100}, 4));
  std::stringstream file;
  module.save(file);
  auto loaded = torch::jit::load(file);
  const Tensor values = random({2, 4, 100}, 5);
  EXPECT_TRUE(same_bits(loaded.forward({values}).toTensor().detach(), module.forward({values}).toTensor().detach()));
}

TEST(TorchScript, ErrorsPassThrough) {
  const auto unit = compile("def bind(a, b):\n    return torch_hrr.bind(a, b)\n");
  try {
    unit->run_method("bind", random({8}, 1), random({9}, 2));
    FAIL() << "no error";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("bind: a and b must have the same last dimension, got 8 and 9"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace torch_hrr::testing
