// A registration: what is accepted names a known role and an address on this machine.
#include <string>

#include "base/check.h"
#include "fuzz_target.h"
#include "proxy/registration.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::proxy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto spec = parse_registration(text, false);
  if (!spec) {
    CHECK(spec.error().status == 400 && !spec.error().message.empty());
    return 0;
  }
  CHECK(spec->role < kRoles.size());
  CHECK(make_instance(kRoles[spec->role].name, spec->endpoint.text(), false).has_value());
  CHECK(!spec->running_max || *spec->running_max > 0);
  return 0;
}
